"""Environments of applications: the packages of their time that exist for this Python, on top of those of `.venv`.

In: the name of a set in `PACKAGES` and a directory. Out: its Python, ready to run. Applications that need the same
packages share one. It is made once, and again when the set changes; one whose packages cannot be imported is not used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STANDINS = Path(__file__).resolve().parent / "standins"
PYTORCH = (
    "transformers==4.26.1",
    "tokenizers==0.13.3",
    "huggingface_hub==0.25.2",
    "datasets==2.21.0",
    "pyarrow==16.1.0",
    "numpy==1.26.4",
    "scipy==1.11.4",
    "pandas==2.2.3",
    "protobuf==3.20.3",
    "tfrecord==1.14.1",
    "wandb==0.12.21",
    "pillow",
    "pyyaml",
    "fire",
    "einops",
    "yacs",
    "simplejpeg",
    "ftfy",
    "tqdm",
    "setuptools<80",
    "librosa==0.9.2",
    "scikit-learn",
    "tensorboard==2.14.1",
    "inflect==5.3.0",
    "Unidecode==1.3.2",
    "psutil",
    "editdistance",
    "pyparsing",
    "sentencepiece",
    "iopath",
    "tabulate",
    "termcolor",
    "matplotlib==3.8.4",
)
# TorchVision of torch 2.13 has no CPU wheel on PyPI: it comes without its requirements, see standins/.
PYTORCH_BARE = (
    "torchvision==0.28.0",
    "timm==0.5.4",
    "randaugment==1.0.2",
    "PyTurboJPEG==1.7.7",
    "checksumdir",
    "torchinfo==1.5.4",
    "ruamel.yaml==0.17.21",
    "pycocotools",
    "torch_geometric==2.3.1",
    "fvcore==0.1.5.post20210727",
    "av",
    "decord==0.6.0",
    "opencv-python-headless==4.8.1.78",
)
TENSORFLOW = (
    "opencv-python-headless",
    "scikit-image",
    "python-magic",
    "dm-tree",
    "decorator",
    "toml",
    "promise",
    "etils[enp,epath,epy,etree]",
    "matplotlib",
    "six",
)
# What these want besides is there already, or was for a TensorFlow of their own.
TENSORFLOW_BARE = (
    "tensorflow-probability",
    "tf-keras",
    "tensorflow-datasets",
    "tensorflow-metadata",
    "simple-parsing",
    "docstring-parser",
    "spektral==0.6.2",
    "ogb==1.3.6",
    "outdated",
    "littleutils",
)
# What programs of TensorFlow 1 import besides.
TENSORFLOW1 = (*TENSORFLOW, "pandas", "scikit-learn", "pyyaml", "tqdm", "pendulum", "fs", "setuptools<80", "pillow")
TENSORFLOW1_BARE = ("tensorflow-probability", "tf-keras", "easydict", "kaldiio", "editdistance")
TENSORFLOW_MODULES = ("tensorflow", "tensorflow_probability", "cv2", "skimage", "magic", "ogb", "spektral")
TENSORFLOW1_MODULES = (
    *("tensorflow", "tensorflow_probability", "cv2", "pandas", "sklearn", "easydict", "kaldiio", "editdistance", "fs"),
)
PYTORCH_MODULES = (
    *("transformers", "datasets", "tfrecord", "wandb", "torchvision", "timm", "turbojpeg", "simplejpeg", "librosa"),
    *("torch_geometric", "pycocotools.coco", "sklearn", "tensorboard", "fvcore", "av", "decord", "cv2", "yacs"),
)
# Swin asks for another timm than all others.
SWIN = (
    "transformers==4.26.1",
    "tokenizers==0.13.3",
    "huggingface_hub==0.25.2",
    "numpy==1.26.4",
    "scipy==1.11.4",
    "protobuf==3.20.3",
    "wandb==0.12.21",
    "pillow",
    "pyyaml",
    "simplejpeg",
    "tqdm",
    "yacs",
    "setuptools<80",
)
SWIN_BARE = ("torchvision==0.28.0", "timm==0.4.5")
# Perceiver IO is written for an early Optimum, in which configurations name replicas by pod.
PERCEIVER = (
    "tokenizers==0.13.3",
    "huggingface_hub==0.25.2",
    "datasets==2.21.0",
    "pyarrow==16.1.0",
    "numpy==1.26.4",
    "scipy==1.11.4",
    "pandas==2.2.3",
    "protobuf==3.20.3",
    "wandb==0.12.21",
    "coloredlogs==15.0.1",
    "sentencepiece",
    "typeguard",
    "scikit-learn",
    "filelock",
    "packaging",
    "pillow",
    "pyyaml",
    "regex",
    "requests",
    "tqdm",
    "setuptools<80",
)
PERCEIVER_BARE = (
    "transformers==4.22.2",
    "optimum-graphcore==0.4.3",
    "optimum==1.4.1",
    "torchvision==0.28.0",
    "timm==0.5.4",
)
# The VQGAN of Mini DALL-E imports names that Lightning 2 dropped.
MINI_DALLE = (
    "numpy==1.26.4",
    "protobuf==3.20.3",
    "wandb==0.12.21",
    "tensorboardX==2.6.2.2",
    "einops",
    "ftfy",
    "regex",
    "omegaconf",
    "pillow",
    "pyyaml",
    "tqdm",
    "setuptools<80",
)
MINI_DALLE_BARE = (
    "pytorch_lightning==1.9.0",
    "torchmetrics==0.11.0",
    "torchvision==0.28.0",
    "axial_positional_embedding==0.2.1",
    "taming-transformers-rom1504==0.0.6",
)
# Lightning 1.9 has IPUs of its own: programs for it reach PopTorch through its strategy, not through ours.
LIGHTNING = (
    "numpy==1.26.4",
    "protobuf==3.20.3",
    "wandb==0.12.21",
    "tensorboard==2.14.1",
    "tensorboardX==2.6.2.2",
    "pillow",
    "pyyaml",
    "rich",
    "simplejpeg",
    "tqdm",
    "text-unidecode",
    "setuptools<80",
)
LIGHTNING_BARE = (
    "pytorch_lightning==1.9.0",
    "torchmetrics==0.11.0",
    "torchvision==0.28.0",
    "timm==0.5.4",
    "randaugment==1.0.2",
    "PyTurboJPEG==1.7.7",
    "checksumdir",
    "torchinfo==1.5.4",
)


# PyTorch Geometric is that of .venv; or the one of their time, whose layers took arguments that newer ones refuse.
PYG = (
    "numpy==1.26.4",
    "scipy==1.11.4",
    "pandas==2.2.3",
    "matplotlib==3.8.4",
    "seaborn==0.13.2",
    "networkx",
    "tabulate==0.9.0",
    "torchinfo==1.8.0",
    "periodictable==1.6.1",
    "py3Dmol==1.8.1",
    "ipywidgets==8.0.2",
    "pyyaml",
    "scikit-learn",
    "pillow",
    "setuptools<80",
)


@dataclass(frozen=True)
class Packages:
    """What pip is to install, with requirements and without; and modules that can be imported if all is well."""

    pinned: tuple[str, ...]
    bare: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    below: str = ".venv"  # the environment of the project that it stands on


PACKAGES = {
    "pytorch": Packages(PYTORCH, PYTORCH_BARE, PYTORCH_MODULES),
    "swin": Packages(SWIN, SWIN_BARE, ("transformers", "torchvision", "timm.scheduler", "yacs", "simplejpeg", "wandb")),
    "perceiver": Packages(PERCEIVER, PERCEIVER_BARE, ("poptorch", "torchvision", "timm", "datasets", "wandb")),
    "mini_dalle": Packages(
        MINI_DALLE, MINI_DALLE_BARE, ("taming.models.vqgan", "axial_positional_embedding", "ftfy", "regex", "wandb")
    ),
    "lightning": Packages(
        LIGHTNING, LIGHTNING_BARE, ("pytorch_lightning.strategies", "torchvision", "timm", "text_unidecode", "wandb")
    ),
    "pyg-2.4": Packages(PYG, ("torch_geometric==2.4.0",), ("torch_geometric", "matplotlib", "torchinfo")),
    "pyg": Packages(
        PYG, (), ("torch_geometric", "matplotlib", "seaborn", "torchinfo", "periodictable", "py3Dmol", "ipywidgets")
    ),
    "tensorflow": Packages(TENSORFLOW, TENSORFLOW_BARE, TENSORFLOW_MODULES, ".venv-tf"),
    "tensorflow1": Packages(
        TENSORFLOW1,
        TENSORFLOW1_BARE,
        TENSORFLOW1_MODULES,
        ".venv-tf",
    ),
}
IMPORT = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


def prepare_environment(name: str, place: Path) -> Path:
    """The Python of the environment `name` under `place`, which is made if it is not there or not up to date. Raises
    CalledProcessError where pip or an import fails: the next call begins anew."""
    packages, folder = PACKAGES[name], place / name
    python, stamp = folder / "bin" / "python", folder / "made-of"
    recipe = hashlib.sha256(repr((packages, sys.version_info[:2])).encode()).hexdigest()
    overlay = [str(python), str(ROOT / "tools" / "overlay.py"), str(ROOT / packages.below)]
    if stamp.is_file() and stamp.read_text() == recipe:
        subprocess.run(overlay, check=True)
        return python
    print(f"making {folder}: this takes a few minutes, once", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    for options, wanted in ((["--no-deps"], packages.bare), ([], packages.pinned)):
        if wanted:
            subprocess.run([*install, *options, *wanted], check=True)
    subprocess.run(overlay, check=True)
    surroundings = os.environ | {"PYTHONPATH": str(STANDINS), "OPENIPU_APPLICATION_PLANS": os.devnull}
    subprocess.run([str(python), "-c", IMPORT, *packages.modules], check=True, env=surroundings)
    stamp.write_text(recipe)
    return python
