"""Runs the TensorFlow programs of graphcore/tutorials (branch sdk-release-3.0), unmodified, and says which end well.

    OPENIPU_TUTORIALS_CHECKOUT=path/to/tutorials .venv-tf/bin/python tests/conformance/run_tensorflow_programs.py
        [--json OUT] [--page] [NAME ...]

The checkout is only read: what is needed of it is copied to a temporary folder. Data sets are made up in their own
formats (`examples/tensorflow/offline.py`) below a HOME of the runner's own, a twentieth of their size where the format
and the program allow it. Programs are called as their own pages and tests call them, with fewer steps where an argument
says how many; what they must print is what their own tests look for. Programs of the 1.15 time that rely on graphs by
default get `OPENIPU_TF1=1`, which is what `openipu run --tf1` does. Two import packages that are not openipu's:
tensorboard, and tensorflow_probability with tf-keras; install them, or put them in PYTHONPATH.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from programs import Program, Suite, run_suite

CHECKOUT_VARIABLE = "OPENIPU_TUTORIALS_CHECKOUT"
BRANCH = "sdk-release-3.0"
OFFLINE = Path(__file__).resolve().parents[2] / "examples" / "tensorflow" / "offline.py"
PARTS = (
    "feature_examples/tensorflow",
    "feature_examples/tensorflow2",
    "kernel_benchmarks/tensorflow",
    "simple_applications/tensorflow",
    "simple_applications/tensorflow2",
    "tech_notes_code/model_parallelism",
    "tech_notes_code/recompilation",
    "tech_notes_code/tensorflow_porting_tf1_models",
    "tutorials/tensorflow1",
    "tutorials/tensorflow2",
    "utils",
)
FEATURES, FEATURES2 = "feature_examples/tensorflow", "feature_examples/tensorflow2"
BASICS, HALF, PIPELINING = (
    f"tutorials/tensorflow1/{name}" for name in ("basics", "half_precision_training", "pipelining")
)
KERAS, FEEDS, BOARD = (f"tutorials/tensorflow2/{name}" for name in ("keras", "infeed_outfeed", "tensorboard"))
PARALLEL, KERNELS = "tech_notes_code/model_parallelism", "kernel_benchmarks/tensorflow"
SHARES = ("20", "5", "1")  # data sets have a twentieth of their size, or more where a program needs it
WELL = "Program ran successfully"
TF1 = {"OPENIPU_TF1": "1"}
FULL, FIFTH = {"DATA_SHARE": "1"}, {"DATA_SHARE": "5"}  # of the runner's own
ITEMS = r"(\w+.\w+) items/sec"
FILES = "needs files from the network: weights and images"
CPP = "compiles C++ for the SDK"

KERAS_2 = "imports keras.optimizer_v2, a part of Keras 2 that Keras 3 does not have"
NOT_RUN = {  # each with its reason
    f"{FEATURES}/concurrent_pipeline": CPP,
    f"{FEATURES}/custom_gradient": CPP,
    f"{FEATURES}/custom_op": CPP,
    f"{FEATURES2}/inspecting_tensors": KERAS_2,
    f"{FEATURES2}/popdist: popdist_inference.py": "reads what popdist_training.py writes after 100 epochs",
    "notebooks (*.ipynb), and the .py files with their text": "run as *_code_only.py, or as the answers beside them",
    "simple_applications/tensorflow/resnet18_inference": FILES,
}
# Why programs fail that are run all the same.
KNOWN_MISSES: Mapping[str, str] = {
    "tech_notes_code/tensorflow_porting_tf1_models: full_resnext.py": (
        "sends 24,000 images through ResNeXt-101, which takes hours on a CPU; a copy with 2 batches a step ends well"
    ),
}


def train(folder: str, words: str, expected: str | tuple[str, ...] = WELL, **others: Any) -> Program:
    return Program(folder, words, expected, launch=f"{{python}} {OFFLINE}", **others)


def share(replicas: int, instances: int) -> dict[str, Any]:
    """How poprun starts a program."""
    return {
        "launch": f"{{python}} -m poprun --num-replicas {replicas} --num-instances {instances} {{python}} {OFFLINE}",
        "reads": "both",
    }


TUTORIALS_1 = (
    train(f"{BASICS}/tut1_porting_a_model", "example_1.py", environment=TF1),
    train(f"{BASICS}/tut2_loops_data_pipeline", "example_2.py", environment=TF1),
    train(HALF, "float32_parameter_updates.py mixed --epochs 1", environment=TF1),
    train(HALF, "float32_parameter_updates.py float32 --epochs 1", environment=TF1),
    train(HALF, "ipuestimator_fp16.py mixed --epochs 1", environment=TF1),
    train(HALF, "ipuestimator_fp16.py float32 --epochs 1", environment=TF1),
    train(HALF, "stochastic_rounding.py float16 8 --epochs 1", environment=TF1),
    train(HALF, "stochastic_rounding.py float32 8 --epochs 1", environment=TF1),
    train(PIPELINING, "step1_single_ipu.py --epochs 3"),
    train(PIPELINING, "answers/step2_sharding.py --epochs 3"),
    train(PIPELINING, "answers/step3_pipelining.py --epochs 3"),
    train(PIPELINING, "answers/step4_configurable_stages.py --epochs 3"),
    train(PIPELINING, "answers/ipu_pipeline_estimator.py --epochs 3"),
    train(PIPELINING, "tutorial_code_only.py --epochs 3", "samples/sec"),
)
TUTORIALS_2 = (
    train(f"{KERAS}/completed_example", "main.py"),
    train(f"{KERAS}/completed_example", "main.py --use-ipu"),
    train(f"{KERAS}/completed_example", "main.py --use-ipu --pipelining"),
    train(f"{KERAS}/completed_demos", "completed_demo_ipu.py"),
    train(f"{KERAS}/completed_demos", "completed_demo_faster.py"),
    train(f"{KERAS}/completed_demos", "completed_demo_replicated.py", environment=FIFTH),
    train(f"{KERAS}/completed_demos", "completed_demo_pipelining.py", environment=FULL),
    train(KERAS, "demo_code_only.py", "152/152", environment=FULL),
    train(BOARD, "demo_code_only.py", "128/128", environment=FULL),
    train(FEEDS, "completed_code/mnist_with_feeds.py", "Time taken using infeed/outfeed queues"),
    train(FEEDS, "completed_code/mnist_without_feeds.py", "Time taken without infeed/outfeed queues"),
)
FEATURES_1 = (
    Program(f"{FEATURES}/connection_type", "connection_type.py --connection_type ALWAYS", r"array\(\[3\., 8\.\]"),
    Program(f"{FEATURES}/connection_type", "connection_type.py --connection_type ON_DEMAND", r"array\(\[3\., 8\.\]"),
    Program(f"{FEATURES}/connection_type", "connection_type.py --connection_type NEVER", r"Compiled\s*$"),
    Program(
        f"{FEATURES}/connection_type",
        "connection_type.py --connection_type PRE_COMPILE",
        r"array\(\[0\., 0\.\]",
        environment={"TF_POPLAR_FLAGS": "--executable_cache_path=cache"},
    ),
    train(f"{FEATURES}/inspecting_tensors", "model.py", r"FCModel/dense2/kernel:0_grad shape: \(100, 256, 128\)"),
    train(
        f"{FEATURES}/inspecting_tensors",
        "model.py --repeat-count 1600 --gradient-accumulation-count 16 --outfeed-pre-accumulated-gradients",
        r"FCModel/dense2/kernel:0_grad shape: \(1600, 256, 128\)",
    ),
    train(f"{FEATURES}/inspecting_tensors", "pipelined_model.py", r"dense2/kernel:0_grad shape: \(100, 256, 128\)"),
    train(
        f"{FEATURES}/inspecting_tensors",
        "pipelined_model.py --outfeed-pre-accumulated-gradients",
        r"dense2/kernel:0_grad shape: \(1600, 256, 128\)",
    ),
    train(
        f"{FEATURES}/ipuestimator",
        "ipu_estimator_cnn.py --batch-size 32 --batches-per-step 20 --epochs 1 --generated-data",
        "",
        environment=TF1,
    ),
    train(f"{FEATURES}/pipelining", "pipelining.py", r"loss: 0\.0[01]\d*", environment=FULL),
    Program(f"{FEATURES}/popdist", "popdist_training.py", r"Epoch 2: loss=", until=r"Epoch 2: loss=", **share(2, 2)),
    *(
        train(
            f"{FEATURES}/replication",
            f"replication.py {words} --batch-size 32 --iterations-per-step 48 --on-demand --steps 2",
            "Average loss",
            environment=TF1,
        )
        for words in (
            "--replicas 1",
            "--replicas 2",
            "--replicas 4",
            "--replicas 2 --batches-to-accumulate 8",
            "--replicas 2 --use-synthetic-data",
            "--replicas 2 --max-cross-replica-sum-buffer-size 0",
        )
    ),
    train(
        f"{FEATURES}/replication",
        "replication.py --replicas 2 --batches-to-accumulate 8 --iterations-per-step 251 --steps 1 --on-demand",
        "",
        environment=TF1,
        fails="evenly divide",
    ),
    Program(f"{FEATURES}/sharding", "simple_sharding.py", r"array\(\[3\., 8\.\]", environment=TF1),
)
FEATURES_2 = (
    train(f"{FEATURES2}/embeddings", "imdb.py", "Epoch 2/", until="Epoch 2/"),
    train(f"{FEATURES2}/embeddings", "imdb_sequential.py", "Epoch 2/", until="Epoch 2/"),
    train(f"{FEATURES2}/embeddings", "imdb_single_ipu.py", "Epoch 2/", until="Epoch 2/"),
    train(f"{FEATURES2}/embeddings", "imdb_single_ipu_sequential.py", "Epoch 2/", until="Epoch 2/"),
    train(
        f"{FEATURES2}/ipu_estimator",
        "cifar10_ipu_estimator_replica.py --epochs 1 --batch-size 50",
        "Validation accuracy",
    ),
    train(
        f"{FEATURES2}/ipu_estimator",
        "cifar10_ipu_pipeline_estimator.py --epochs 1 --batch-size 50",
        "Validation accuracy",
    ),
    Program(f"{FEATURES2}/popdist", "popdist_training.py", "Epoch 2/100", until="Epoch 2/100", **share(2, 2)),
    Program(f"{FEATURES2}/recomputation_checkpoints", "recompute_lstm.py --seq-len 64 --checkpoints 7", "loss:"),
    Program(
        f"{FEATURES2}/recomputation_checkpoints",
        "recompute_lstm.py --seq-len 64 --checkpoints 8",
        ("loss:", "can't be evenly divided"),
    ),
)
APPLICATIONS = (
    train("simple_applications/tensorflow/mnist", "mnist.py"),
    train("simple_applications/tensorflow/mnist", "mnist_code_only.py"),
    train("simple_applications/tensorflow2/mnist", "mnist.py", "Epoch 2/"),
    train("simple_applications/tensorflow2/mnist", "mnist_code_only.py", "Epoch 2/"),
    Program(f"{PARALLEL}/tensorflow1_code", "graph_sharding.py"),
    Program(f"{PARALLEL}/tensorflow1_code", "inference_pipelining.py"),
    Program(f"{PARALLEL}/tensorflow1_code", "training_pipelining.py"),
    Program(f"{PARALLEL}/tensorflow2_code", "inference_pipelining.py"),
    Program(f"{PARALLEL}/tensorflow2_code", "inference_pipelining_sequential.py"),
    Program(f"{PARALLEL}/tensorflow2_code", "inference_pipelining_set_pipeline_stage.py"),
    Program(f"{PARALLEL}/tensorflow2_code", "training_pipelining.py"),
    Program(f"{PARALLEL}/tensorflow2_code", "training_pipelining_sequential.py"),
    Program("tech_notes_code/recompilation/tensorflow1", "recompilation.py", "Caching/warm up test"),
    Program("tech_notes_code/recompilation/tensorflow2", "TF2_recompilation.py", "Caching/warm up test"),
    Program(
        "tech_notes_code/tensorflow_porting_tf1_models",
        "full_resnext.py",
        ("Throughput", "Latency"),
        environment=TF1,
    ),
)
_SHORT = "--batches-per-step 2 --steps 1"
BENCHMARKS = tuple(
    Program(KERNELS, words, expected, environment=TF1)
    for words, expected in (
        (f"dense.py {_SHORT}", ITEMS),
        (f"dense.py --train --include-activation --size 256 --batch-size 128 {_SHORT}", ITEMS),
        ('dense.py --convolution-options={"availableMemoryProportion":"0.2"} --batches-per-step 2', ITEMS),
        (f"dense.py --replicas 2 {_SHORT}", ITEMS),
        ('dense.py --matmul-options={"partialsType":"half"} --size 128 --batch-size 4 --batches-per-step 2', ITEMS),
        (f"grouped_conv.py --batch-size 2 {_SHORT}", ITEMS),
        (f"grouped_conv.py --train --input-size 56 --stride 3 --filter-in 32 --filter-out 16 {_SHORT}", ITEMS),
        (f"lstm.py --batch-size 8 --timesteps 5 --hidden-size 64 {_SHORT}", ITEMS),
        (f"lstm.py --batch-size 8 --timesteps 5 --hidden-size 64 --use-generated-data --popnn {_SHORT}", ITEMS),
        (f"lstm.py --batch-size 8 --timesteps 5 --hidden-size 64 --train --use-generated-data {_SHORT}", ITEMS),
        (f"gru.py --batch-size 8 --timesteps 5 --hidden-size 64 {_SHORT}", ITEMS),
        (f"gru.py --batch-size 8 --timesteps 5 --hidden-size 64 --use-generated-data --popnn {_SHORT}", ITEMS),
        (f"gru.py --batch-size 8 --timesteps 5 --hidden-size 64 --train --use-generated-data {_SHORT}", ITEMS),
        (f"rnn.py --batch-size 8 --timesteps 5 --hidden-size 64 {_SHORT}", ITEMS),
        (f"rnn.py --batch-size 8 --timesteps 5 --hidden-size 64 --train --use-generated-data {_SHORT}", ITEMS),
        ("hmc.py --steps 2 --hmc-steps 10 --leapfrog-steps 2", r"(\w+.\w+) hmc steps/sec"),
    )
)


def prepare(folder: Path) -> None:
    """Data sets below two homes."""
    spec = importlib.util.spec_from_file_location("offline", OFFLINE)
    assert spec is not None
    assert spec.loader is not None
    offline = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(offline)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openipu-made-data"
    names = list(offline.MAKERS)
    for part in SHARES:
        offline.fill(cache / part, names if part == SHARES[0] else ["mnist"], int(part))
        datasets = folder / f"home_{part}" / ".keras" / "datasets"
        datasets.mkdir(parents=True)
        for file, _ in offline.MAKERS.values():
            own = cache / part / file
            (datasets / file).symlink_to(own if own.exists() else cache / SHARES[0] / file)
        (datasets / offline.MADE).write_text("\n".join(file for file, _ in offline.MAKERS.values()))


def surround(program: Program, folder: Path) -> Mapping[str, str]:
    home = folder / f"home_{program.environment.get('DATA_SHARE', SHARES[0])}"
    return {"HOME": str(home), "TF_CPP_MIN_LOG_LEVEL": "2", "OPENIPU_CACHE_DIR": str(folder / "cache")}


SUITE = Suite(
    title="tensorflow",
    variable=CHECKOUT_VARIABLE,
    branch=BRANCH,
    parts=PARTS,
    programs=(*TUTORIALS_1, *TUTORIALS_2, *FEATURES_1, *FEATURES_2, *APPLICATIONS, *BENCHMARKS),
    not_run=NOT_RUN,
    prepare=prepare,
    surround=surround,
    known_misses=KNOWN_MISSES,
    mark="tensorflow-programs",
)

if __name__ == "__main__":
    sys.exit(run_suite(SUITE, __doc__))
