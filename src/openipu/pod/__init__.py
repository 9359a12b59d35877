"""The virtual pod: IPUs that programs attach to, and that the operator's tools show. Free of torch."""

from openipu.pod.attachment import Attachment, Lease
from openipu.pod.description import (
    FABRIC_VARIABLE,
    Partition,
    PodDescription,
    read_fabric_file,
    read_pod_file,
    write_pod_file,
)
from openipu.pod.inventory import Ipu, describe_attributes, list_ipus
from openipu.pod.location import (
    PARTITION_VARIABLE,
    POD_VARIABLE,
    STATE_VARIABLE,
    choose_pod_file,
    choose_state_directory,
    find_pod,
)
from openipu.pod.pod import LARGEST_LEASE, Pod
from openipu.pod.setup import remove_pod, set_up_pod

__all__ = [
    "FABRIC_VARIABLE",
    "LARGEST_LEASE",
    "PARTITION_VARIABLE",
    "POD_VARIABLE",
    "STATE_VARIABLE",
    "Attachment",
    "Ipu",
    "Lease",
    "Partition",
    "Pod",
    "PodDescription",
    "choose_pod_file",
    "choose_state_directory",
    "describe_attributes",
    "find_pod",
    "list_ipus",
    "read_fabric_file",
    "read_pod_file",
    "remove_pod",
    "set_up_pod",
    "write_pod_file",
]
