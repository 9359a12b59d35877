"""save, load, loadExecutable, and the executable cache."""

import json
import subprocess
import sys
import zipfile

import pytest
import torch

import poptorch
from openipu import session
from openipu.capture import capture_program
from openipu.graph.serial.archive import Archive, read_archive, write_archive
from openipu.session import cache as session_cache
from openipu.store import open_store


class Classifier(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x, label=None):
        out = self.dropout(self.layer(x))
        return out if label is None else (out, torch.nn.functional.cross_entropy(out, label))


INPUT, LABEL = torch.ones(2, 4), torch.tensor([0, 1])


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def make_trainer(options=None):
    torch.manual_seed(0)
    model = Classifier()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.01)
    return poptorch.trainingModel(model, options or quiet().randomSeed(3), optimizer)


def test_a_loaded_model_trains_on_exactly_where_the_saved_one_was(tmp_path):
    trainer = make_trainer()
    for _ in range(3):
        trainer(INPUT, LABEL)
    trainer.save(str(tmp_path / "new" / "model.poptorch"))
    _, expected = trainer(INPUT, LABEL)
    trainer.destroy()
    loaded = poptorch.load(str(tmp_path / "new" / "model.poptorch"))
    _, loss = loaded(INPUT, LABEL)
    assert torch.equal(loss, expected)  # weights, Adam's state and the random numbers of dropout


@pytest.mark.parametrize("calls", [0, 2], ids=["before it is compiled", "afterwards"])
def test_torch_saves_a_wrapped_model_as_a_whole(tmp_path, calls):
    executor = poptorch.inferenceModel(Classifier().eval(), quiet())
    for _ in range(calls):
        executor(INPUT)
    torch.save(executor, tmp_path / "whole.pt")
    expected = executor(INPUT)
    executor.destroy()
    loaded = torch.load(tmp_path / "whole.pt", weights_only=False)
    assert torch.equal(loaded(INPUT), expected)
    loaded.destroy()


def test_torch_saves_a_model_in_training_with_its_weights_of_now_and_its_optimizer(tmp_path):
    model = Classifier().eval()  # no dropout: random numbers begin anew
    trainer = poptorch.trainingModel(model, quiet(), poptorch.optim.Adam(model.parameters(), lr=0.01))
    for _ in range(3):
        trainer(INPUT, LABEL)
    torch.save(trainer, tmp_path / "whole.pt")
    expected = [trainer(INPUT, LABEL)[1] for _ in range(2)]
    trainer.destroy()
    loaded = torch.load(tmp_path / "whole.pt", weights_only=False)
    losses = [loaded(INPUT, LABEL)[1] for _ in range(2)]
    assert all(map(torch.equal, losses, expected))
    loaded.destroy()


def test_a_file_without_the_model_is_loaded_into_one(tmp_path):
    file = str(tmp_path / "model.poptorch")
    make_trainer().compileAndExport(file, INPUT, LABEL, export_model=False)
    with pytest.raises(AssertionError, match="created with 'export_model=False'"):
        poptorch.load(file)
    trainer = make_trainer()
    trainer.loadExecutable(file)
    assert trainer.isCompiled()
    trainer(INPUT, LABEL)


def test_an_offline_target_is_compiled_saved_and_then_runs(tmp_path):
    file = str(tmp_path / "model.poptorch")
    model = poptorch.inferenceModel(Classifier().eval(), quiet().useOfflineIpuTarget())
    model.compileAndExport(file, INPUT)
    loaded = poptorch.load(file, edit_opts_fn=lambda options: options.modelName("renamed"))
    assert loaded.options.model_name == "renamed"
    assert loaded(INPUT).shape == (2, 4)


def test_a_directory_gets_a_file_of_a_fixed_name(tmp_path, caplog):
    poptorch.inferenceModel(Classifier(), quiet()).compileAndExport(str(tmp_path), INPUT)
    assert [path.name for path in tmp_path.iterdir()] == ["model.poptorch"]
    assert "is a directory" in caplog.text


def test_a_local_class_cannot_be_exported_with_its_model(tmp_path):
    class Local(torch.nn.Module):
        def forward(self, x):
            return x + 1

    model = poptorch.inferenceModel(Local(), quiet())
    with pytest.raises(poptorch.Error, match="export_model=False"):
        model.compileAndExport(str(tmp_path / "a"), INPUT)
    model.save(str(tmp_path / "a"), export_model=False)


def test_saving_needs_a_compiled_model(tmp_path):
    with pytest.raises(poptorch.Error, match="Model has not been compiled or has been destroyed"):
        make_trainer().save(str(tmp_path / "a"))


def test_another_model_version_or_file_is_refused(tmp_path):
    file = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(Classifier().eval(), quiet()).compileAndExport(file, INPUT, export_model=False)
    wrong = poptorch.inferenceModel(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), quiet())
    with pytest.raises(poptorch.Error, match=r"Invalid file .* another model"):
        wrong.loadExecutable(file)
    with zipfile.ZipFile(file) as archive:
        metadata = json.loads(archive.read("metadata.json"))
    metadata["values"]["interface"] = "1.0"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("metadata.json", json.dumps(metadata))
    with pytest.raises(AssertionError, match=r"Invalid file .* PopTorch version mismatch"):
        poptorch.load(file)
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(poptorch.Error, match="Invalid file"):
        wrong.loadExecutable(str(tmp_path / "text"))


def test_only_an_exported_model_puts_a_pickle_into_the_file(tmp_path):
    file = tmp_path / "model.poptorch"
    make_trainer().compileAndExport(str(file), INPUT, LABEL, export_model=False)
    names = {"metadata.json", "tensors.bin", "program.json", "program.bin"}
    assert set(zipfile.ZipFile(file).namelist()) == names


class Dropped(Classifier):
    """The same weights and the same modules, but other maths."""

    def forward(self, x, label=None):
        return super().forward(x * 2, label)


@pytest.fixture
def captures(monkeypatch):
    """Names of programs, one for each capture."""
    captured = []

    def count(*args, **kwargs):
        captured.append(kwargs["name"])
        return capture_program(*args, **kwargs)

    monkeypatch.setattr(session.compiling, "capture_program", count)
    return captured


def test_loading_captures_nothing(tmp_path, captures):
    file = str(tmp_path / "model.poptorch")
    trainer = make_trainer()
    trainer.compileAndExport(file, INPUT, LABEL)
    _, expected = trainer(INPUT, LABEL)
    trainer.destroy()
    assert captures == ["training"]
    _, loss = poptorch.load(file)(INPUT, LABEL)
    second = make_trainer()
    second.loadExecutable(file)
    _, again = second(INPUT, LABEL)
    assert captures == ["training"]
    assert torch.equal(loss, expected)
    assert torch.equal(again, expected)


def test_a_model_that_may_have_changed_is_captured_and_compared(tmp_path, captures):
    file = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(Classifier().eval(), quiet()).compileAndExport(file, INPUT, export_model=False)
    with pytest.raises(poptorch.Error, match="compiled from another model"):
        poptorch.inferenceModel(Dropped().eval(), quiet()).loadExecutable(file)
    changed = Classifier().eval()
    changed.dropout.p = 0.1  # no part of an evaluation: other settings, the same program
    poptorch.inferenceModel(changed, quiet()).loadExecutable(file)
    assert len(captures) == 3
    with pytest.raises(poptorch.Error, match="compiled from another model"):
        poptorch.inferenceModel(Classifier(), quiet()).loadExecutable(file)  # dropout acts


def test_options_that_change_the_micro_batch_are_refused(tmp_path):
    file = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(Classifier().eval(), quiet()).compileAndExport(file, INPUT, export_model=False)
    other = poptorch.inferenceModel(Classifier().eval(), quiet().deviceIterations(2))
    with pytest.raises(poptorch.Error, match=r"was compiled for input x with \(2, 4\)"):
        other.loadExecutable(file)


def test_a_program_with_a_function_of_the_host_is_captured_again(tmp_path, captures, capsys):
    class Printing(Classifier):
        def forward(self, x):
            return super().forward(poptorch.ipu_print_tensor(x, "seen"))

    file = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(Printing().eval(), quiet()).compileAndExport(file, INPUT, export_model=False)
    assert "program.json" not in zipfile.ZipFile(file).namelist()
    model = poptorch.inferenceModel(Printing().eval(), quiet())
    model.loadExecutable(file)
    assert len(captures) == 2
    model(INPUT)
    assert "seen" in capsys.readouterr().err


def test_a_file_that_was_tampered_with_runs_nothing(tmp_path):
    file = tmp_path / "model.poptorch"
    poptorch.inferenceModel(Classifier().eval(), quiet()).compileAndExport(str(file), INPUT, export_model=False)
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    graph = parts["program.json"]
    for before, after in ((b"aten::addmm", b"aten::save"), (b'"addmm', b'"eval(1)'), (b'"placeholder"', b'"call"')):
        assert before in graph
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in {**parts, "program.json": graph.replace(before, after)}.items():
                archive.writestr(name, content)
        with pytest.raises(poptorch.Error, match="Invalid file"):
            poptorch.inferenceModel(Classifier().eval(), quiet()).loadExecutable(str(file))


def rewrite(file, change):
    """The same file with other members."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def change_values(parts, **values):
    metadata = json.loads(parts["metadata.json"])
    metadata["values"].update(values)
    parts["metadata.json"] = json.dumps(metadata).encode()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda parts: parts.update({"tensors.bin": bytes(200 << 20)}), "claims to unpack to"),
        (lambda parts: parts.update({"../evil": b"x"}), "not a plain name"),
        (lambda parts: parts.pop("metadata.json"), "it has no metadata.json"),
        (lambda parts: parts.update({"metadata.json": b'{"values": {"a":' + b"[" * 9999}), "nested too deeply"),
        (lambda parts: change_values(parts, training="yes"), "Expected `bool`, got `str`"),
        (lambda parts: change_values(parts, rng_state=["x"]), "Expected `int`, got `str`"),
        (lambda parts: change_values(parts, args={"value": 3}), "no arguments"),
        (lambda parts: change_values(parts, args={"tuple": [{"tensor": [[4], "load"]}]}), "inputs cannot be read"),
        (
            lambda parts: change_values(parts, args={"tuple": [{"tensor": [[1 << 45], "float32"]}]}),
            "inputs cannot be read",
        ),
        (lambda parts: change_values(parts, args={"tuple": [{"eval": "x"}]}), "'eval' is unknown"),
    ],
)
def test_a_file_of_somebody_else_is_read_within_limits(change, problem, tmp_path):
    file = tmp_path / "model.poptorch"
    poptorch.inferenceModel(Classifier().eval(), quiet()).compileAndExport(str(file), INPUT, export_model=False)
    rewrite(file, change)
    with pytest.raises(poptorch.Error, match=rf"Invalid file .*{problem}"):
        poptorch.inferenceModel(Classifier().eval(), quiet()).loadExecutable(str(file))


def test_zeros_of_many_megabytes_are_no_bomb(tmp_path):
    """State of an optimizer that has done nothing yet deflates a thousandfold."""
    state = {"moment": torch.zeros(30 << 20)}
    write_archive(tmp_path / "file", Archive("test", {}, state))
    assert torch.equal(read_archive(tmp_path / "file", "test").tensors["moment"], state["moment"])


def test_a_file_works_in_another_process_in_another_directory(tmp_path):
    (tmp_path / "first").mkdir()
    source = tmp_path / "first" / "scaled.py"
    source.write_text(
        "import torch\n"
        "class Scaled(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weight = torch.nn.Parameter(torch.tensor(3.0))\n"
        "    def forward(self, x):\n"
        "        return x * self.weight\n"
    )
    script = (
        "import sys, torch, poptorch\n"
        "from openipu import session\n"
        "from scaled import Scaled\n"
        "options = poptorch.Options().showCompilationProgressBar(False)\n"
        "model = poptorch.inferenceModel(Scaled(), options)\n"
        "if sys.argv[1] == 'write':\n"
        "    model.compileAndExport('model.poptorch', torch.ones(2))\n"
        "else:\n"
        "    session.compiling.capture_program = None\n"
        "    print(poptorch.load('model.poptorch')(torch.ones(2)).tolist())\n"
    )
    for action, folder in (("write", "first"), ("read", "second")):
        if action == "read":
            (tmp_path / "first").rename(tmp_path / "second")
        done = subprocess.run(
            [sys.executable, "-c", script, action], cwd=tmp_path / folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout == "[3.0, 3.0]\n"


def test_a_warm_start_from_the_cache_does_not_plan_again(tmp_path, monkeypatch):
    monkeypatch.setenv("POPTORCH_CACHE_DIR", str(tmp_path))  # as the option would
    cycles = []
    for _ in range(2):
        model = poptorch.inferenceModel(Classifier().eval(), quiet().logCycleCount(True))
        model(INPUT)
        cycles.append(model.cycleCount())
        monkeypatch.setattr(session_cache, "plan_program", None)
    assert cycles[0] == cycles[1] > 0
    assert len(list(tmp_path.iterdir())) == 1


def test_the_cache_has_one_entry_for_each_distinct_program(tmp_path):
    def compile_for(shape, **settings):
        options = quiet().enableExecutableCaching(str(tmp_path))
        for setter, value in settings.items():
            getattr(options, setter)(value)
        poptorch.inferenceModel(Classifier().eval(), options).compile(torch.ones(shape))
        return len(list(tmp_path.iterdir()))

    assert compile_for((2, 4)) == 1
    assert compile_for((2, 4)) == 1  # other weights, the same program
    assert compile_for((4, 4)) == 2
    assert compile_for((4, 4), deviceIterations=2) == 3


def test_a_damaged_cache_entry_is_written_again(tmp_path):
    options = quiet().enableExecutableCaching(str(tmp_path))
    poptorch.inferenceModel(Classifier().eval(), options).compile(INPUT)
    (entry,) = tmp_path.iterdir()
    for file in entry.iterdir():
        file.write_text("damaged")
    poptorch.inferenceModel(Classifier().eval(), options).compile(INPUT)
    assert tmp_path / entry.name == entry
    assert open_store(tmp_path).verify() == ()
    assert len(open_store(tmp_path).list()) == 1
