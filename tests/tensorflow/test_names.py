"""The names of the original, in a stock TensorFlow: by the start-up hook, in whatever way a program imports them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import openipu_startup
import openipu_tensorflow.ipu
import tensorflow as tf

IMPORTS = [
    "from tensorflow.python import ipu",
    "import tensorflow.python.ipu as ipu",
    "import tensorflow as tf; from tensorflow.python import ipu",
]


@pytest.mark.parametrize("statement", IMPORTS)
def test_every_way_of_importing_gives_the_one_module(statement):
    names = {}
    exec(statement, names)
    assert names["ipu"] is openipu_tensorflow.ipu


def test_a_module_keeps_its_own_name_and_spec():
    import tensorflow.python.ipu as ipu

    assert ipu.__name__ == ipu.__spec__.name == "openipu_tensorflow.ipu"


def test_a_name_that_the_original_does_not_have_is_missing_under_the_name_that_was_asked_for():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tensorflow\.python\.ipu\.no_such_module'"):
        import tensorflow.python.ipu.no_such_module  # noqa: F401


def test_tensorflow_is_as_it_was():
    import tensorflow.python as inner

    assert tf.__version__.startswith("2.")
    assert "openipu" not in inner.__spec__.origin


def test_the_names_are_there_in_a_new_process_without_any_preparation():
    done = subprocess.run(
        [sys.executable, "-c", "from tensorflow.python import ipu; print(ipu.__name__)"],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.stdout.strip() == "openipu_tensorflow.ipu", done.stderr[-2000:]


def test_every_alias_is_looked_for():
    assert all(alias.startswith(openipu_startup._FIRST) for alias in openipu_startup.ALIASES)


def test_keras_shows_its_part_for_ipus_without_an_import_of_it():
    script = (
        "from tensorflow.python import ipu\nimport keras\nfrom tensorflow import keras as tf_keras\n"
        "import tensorflow as tf\n"
        "assert keras.ipu is tf_keras.ipu is tf.keras.ipu is ipu.keras\nprint(keras.ipu.PipelineStage.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.strip() == "PipelineStage", done.stderr[-2000:]


PATHS = [  # a path of modules of some SDK: what it is by attributes
    ("tensorflow.python.ipu.keras", "ipu.keras"),
    ("tensorflow.python.ipu.keras.layers", "ipu.keras.layers"),
    ("tensorflow.python.ipu.keras.optimizers", "ipu.keras.optimizers"),
    ("tensorflow.python.ipu.layers", "ipu.layers"),
    ("keras.ipu.layers", "ipu.keras.layers"),
    ("tensorflow.keras.ipu.optimizers", "ipu.keras.optimizers"),
]


@pytest.mark.parametrize(("path", "attribute"), PATHS)
def test_what_is_there_by_attribute_is_there_by_import(path, attribute):
    import importlib

    found = openipu_tensorflow
    for name in attribute.split("."):
        found = getattr(found, name)
    assert importlib.import_module(path) is found


def test_the_name_that_tensorflow_1_gave_to_its_own_package_is_tensorflow():
    from tensorflow.python.keras import backend
    from tensorflow_core.python.keras.backend import unique_object_name

    assert unique_object_name is backend.unique_object_name
