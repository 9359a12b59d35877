"""From raw results to tables, aims and the page."""

import pytest
from bench.__main__ import parse_arguments
from bench.aims import list_aims
from bench.cells import VARIANTS, WAYS, Cell
from bench.figures import Figures
from bench.models import MODELS
from bench.page import PAGE, update_page, write_markdown
from bench.store import Store
from bench.tables import list_failures, make_tables


def make_cell(speed, half=False):
    """Eager takes two seconds; openipu is `speed` times as fast; torch.compile takes one second."""
    seconds = {"eager": 2.0, "torch.compile": 1.0, "openipu": 2.0 / speed}
    if half:
        seconds = {"eager": 2.0, "openipu": 2.0 / speed, "openipu float32": 0.1}
    ways = {name: {"seconds": [value] * 3, "peak_bytes": 100 * 2**20} for name, value in seconds.items()}
    return {"ways": ways}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.json")


def find_aim(store, text):
    return next(aim for aim in list_aims(Figures(store)) if aim.text.startswith(text))


def fill_training(store, speeds):
    for name, speed in zip(MODELS, speeds, strict=True):
        store.merge("steps", Cell(name).key, make_cell(speed))


def test_a_mean_over_all_models_is_reached_or_not(store):
    fill_training(store, [1.6] * len(MODELS))
    assert find_aim(store, "Training, float32, over eager: geometric mean").reached is True
    assert find_aim(store, "Training, float32, over torch.compile: geometric mean").reached is False  # 0.8x


def test_one_slow_model_misses_the_aim_of_each_model(store):
    fill_training(store, [1.5] * (len(MODELS) - 1) + [0.9])
    aim = find_aim(store, "Training, float32, over eager: each model")
    assert (aim.reached, aim.measured) == (False, "0.90 (ViT-base)")


def test_models_that_are_missing_leave_an_aim_open(store):
    store.merge("steps", Cell("cnn").key, make_cell(3.0))
    assert find_aim(store, "Training, float32, over eager: each model").reached is None
    assert find_aim(store, "Training, float32, over eager: geometric mean").reached is None
    assert find_aim(store, "Planning time").measured == "not measured"


def test_half_is_held_against_eager_half_and_our_own_float32(store):
    for name in MODELS:
        store.merge("steps", Cell(name, True, "half").key, make_cell(10.0, half=True))
    assert find_aim(store, "Training, half, over eager half").measured.startswith("10.00")
    # 0.2 s of half over 0.1 s of float32
    aim = find_aim(store, "Training, half: time over our own float32")
    assert (aim.reached, aim.measured[:4]) == (False, "2.00")


def test_the_share_of_the_limit_uses_the_rates_of_the_same_round(store):
    cell = {
        "ways": {"openipu": {"seconds": [2.0, 4.0]}},
        "flops": 100.0,
        "traffic_bytes": 50.0,
        # Half as fast in the second round: 1 s + 0.5 s, then 2 s + 1 s. The share stays 75 %.
        "host": [
            {"flops_per_second": 100.0, "bytes_per_second": 100.0},
            {"flops_per_second": 50.0, "bytes_per_second": 50.0},
        ],
    }
    store.merge("steps", Cell("vit").key, cell)
    share = Figures(store).find_limit_share(Cell("vit"), "openipu")
    assert (share.lower, share.upper) == (0.75, 0.75)


def test_memory_that_grows_misses_its_aim(store):
    steps = list(range(100, 2001, 100))
    store.merge("flatness", "openipu", {"steps": steps, "resident_bytes": [4096 * step for step in steps]})
    aim = find_aim(store, "Memory growth")
    assert (aim.reached, aim.measured) == (False, "4,096 B a step (openipu)")


def make_background(during):
    phases = {"before_seconds": 1.0, "during_seconds": during, "longest_seconds": 2.0, "after_seconds": 0.5}
    return {**phases, "compile_seconds": 30.0}


def test_steps_that_stall_beside_a_compilation_miss_their_aim(store):
    store.merge("background", "cnn", make_background(1.05))
    assert find_aim(store, "Steps beside a compilation").reached
    store.merge("background", "bert_small", make_background(28.0))
    aim = find_aim(store, "Steps beside a compilation")
    assert (aim.reached, aim.bar, aim.measured) == (False, "at most 1.1", "28.00 (BERT 2x256)")


def test_a_compilation_that_never_came_leaves_the_aim_open(store):
    store.merge("background", "cnn", {"before_seconds": 1.0, "compile_seconds": 0.0})
    aim = find_aim(store, "Steps beside a compilation")
    assert (aim.reached, aim.measured) == (None, "not measured")
    table = next(table for table in make_tables(Figures(store)) if table.name == "background")
    assert table.rows == [("MNIST CNN", "1,000.00")]


def test_results_of_single_sections_are_merged_into_one_file(store):
    store.merge("steps", "cnn-training-float32-1", make_cell(2.0))
    again = Store(store.path)
    again.merge("planning", "bert", {"capture_seconds": {}, "plan_seconds": {}})
    again.merge("steps", "cnn-training-float32-1", make_cell(3.0))
    read = Store(store.path)
    assert set(read.values) == {"version", "steps", "planning"}
    assert Figures(read).find_speed(Cell("cnn"), "openipu", "eager").median == pytest.approx(3.0)


def test_a_way_that_failed_is_named_and_leaves_the_others(store):
    cell = make_cell(2.0)
    cell["ways"]["torch.compile"] = {"error": "RuntimeError: no compiler"}
    store.merge("steps", Cell("cnn").key, cell)
    assert list(list_failures(Figures(store))) == [
        "steps, cnn-training-float32-1, torch.compile: RuntimeError: no compiler"
    ]
    table = next(table for table in make_tables(Figures(store)) if table.name == "training")
    assert "| MNIST CNN | 2,000 | failed | 2.00x (2.00–2.00) |" in write_markdown(table)


def test_every_table_has_a_place_on_the_page(store):
    for variant in VARIANTS:
        for name in MODELS:
            store.merge("steps", f"{name}-{variant}", make_cell(2.0, half="half" in variant))
    store.merge("first_step", "cnn-openipu", {"cold": {"result_seconds": 2.0}, "warm": {"result_seconds": 0.5}})
    store.merge("flatness", "openipu", {"steps": [500, 2000], "resident_bytes": [1, 1]})
    store.merge("background", "cnn", make_background(1.0))
    figures = {str(layers): [0.5] for layers in (6, 12, 24, 48)}
    store.merge("planning", "bert", {"capture_seconds": figures, "plan_seconds": figures})
    store.merge("loading", "training", {"batch": 16, "ways": {"eager": {"seconds": [1.0, 1.0]}}})
    tables = make_tables(Figures(store))
    assert len(tables) == 12
    page = update_page(PAGE.read_text(encoding="utf-8"), {table.name: write_markdown(table) for table in tables})
    assert all(table.title in page for table in tables)


def test_only_the_part_between_the_marks_is_replaced():
    page = "before\n<!-- bench:a -->\nold\n<!-- /bench:a -->\nafter\n"
    assert update_page(page, {"a": r"new \1"}) == "before\n<!-- bench:a -->\nnew \\1\n<!-- /bench:a -->\nafter\n"


def test_a_part_without_a_place_is_an_error():
    with pytest.raises(ValueError, match="bench:a"):
        update_page("a page without marks", {"a": "new"})


def test_a_cell_is_found_again_by_its_key():
    for variant in VARIANTS:
        cell = Cell.parse(f"bert_small-{variant}")
        assert (cell.key, cell.variant) == (f"bert_small-{variant}", variant)
        assert {way.name for way in cell.ways} <= set(WAYS)


def make_inference(speed):
    """Eager takes 2 s, torch.compile 1.6 s, ONNX Runtime 1.5 s."""
    seconds = {"eager": 2.0, "torch.compile": 1.6, "ONNX Runtime": 1.5, "openipu": 2.0 / speed}
    return {"ways": {name: {"seconds": [value] * 3} for name, value in seconds.items()}}


def test_inference_is_compared_with_all_three(store):
    for name in MODELS:
        store.merge("steps", Cell(name, training=False).key, make_inference(1.4))
    found = {
        rival: find_aim(store, f"Inference, float32, over {rival}: geometric mean")
        for rival in ("eager", "torch.compile", "ONNX Runtime")
    }
    assert {rival: aim.measured for rival, aim in found.items()} == {
        "eager": "1.40x",
        "torch.compile": "1.12x",  # 1.6 / (2 / 1.4)
        "ONNX Runtime": "1.05x",  # 1.5 / (2 / 1.4)
    }
    assert all(aim.reached for aim in found.values())
    (table,) = [table for table in make_tables(Figures(store)) if table.name == "inference"]
    assert table.headings[-2:] == ("openipu over torch.compile", "openipu over ONNX Runtime")


def test_the_latency_of_a_request_is_its_median_and_its_hundredth_longest(store):
    seconds = [number / 1000 for number in range(1, 201)]
    store.merge("latency", "cnn", {"ways": {"eager": {"seconds": seconds}, "torch.compile": {"error": "no compiler"}}})
    assert Figures(store).find_latency("cnn", "eager") == (0.1005, 0.198)
    (table,) = [table for table in make_tables(Figures(store)) if table.name == "latency"]
    assert table.headings == ("model", "eager median ms", "eager 99 % ms")
    assert table.rows == [("MNIST CNN", "100.500", "198.000")]


def test_generation_is_held_against_transformers(store):
    searches = ("gpt2_small", 0.5), ("gpt2", 0.8), ("gpt2_small, 4 beams", 0.5), ("gpt2, 4 beams", 0.5)
    for size, own in searches:
        ways = {"transformers": {"seconds": [1.0] * 3}, "openipu": {"seconds": [own] * 3}}
        store.merge("generation", size, {"ways": ways})
    aim = find_aim(store, "Generation over plain Transformers")
    assert (aim.reached, aim.measured) == (False, "1.25 (gpt2)")
    (table,) = [table for table in make_tables(Figures(store)) if table.name == "generation"]
    assert table.rows[1] == ("gpt2_small", "openipu", "500", "2.00x (2.00–2.00)")


def test_fewer_vectors_are_not_mixed_with_the_results_of_this_machine(tmp_path):
    with pytest.raises(SystemExit):
        parse_arguments(["--vectors", "avx2"])
    with pytest.raises(SystemExit):
        parse_arguments(["--vectors", "avx2", "--json", str(tmp_path / "other.json"), "--update-docs"])
    assert parse_arguments(["--vectors", "avx2", "--json", str(tmp_path / "other.json")]).vectors == "avx2"
