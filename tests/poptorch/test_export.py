"""save, load, loadExecutable, and the executable cache."""

import json
import zipfile

import pytest
import torch

import poptorch


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
    assert set(zipfile.ZipFile(file).namelist()) == {"metadata.json", "tensors.pt"}


def test_the_cache_has_one_file_for_each_distinct_program(tmp_path):
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


def test_a_damaged_cache_file_is_written_again(tmp_path):
    options = quiet().enableExecutableCaching(str(tmp_path))
    poptorch.inferenceModel(Classifier().eval(), options).compile(INPUT)
    (file,) = tmp_path.iterdir()
    file.write_text("damaged")
    poptorch.inferenceModel(Classifier().eval(), options).compile(INPUT)
    assert zipfile.is_zipfile(file)
