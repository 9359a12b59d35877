"""The operator's commands: `gc-info`, `gc-monitor` and the tests, on the IPUs of the virtual pod.

One module a command, each with a `main`. There is no hardware below: every figure says whether it was modelled from the
machine's description or measured on this host. Free of torch.
"""
