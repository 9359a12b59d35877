"""Which items of the public PopART suite use its public interface alone is told from their code."""

import importlib.util
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
IR = "reads PopART's private IR"
LOG = "reads log text"


@pytest.fixture
def scope():
    spec = importlib.util.spec_from_file_location("popart_scope", REPOSITORY / "tests/conformance/popart_scope.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_names_are_followed_through_helpers_fixtures_and_modules_of_the_suite(scope, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "helper.py").write_text(
        "def look(session):\n    return session._serializeIr(0)\n\ndef other():\n    pass\n"
    )
    (tmp_path / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef spy(capfd):\n    return capfd\n")
    file = tmp_path / "inner" / "some_test.py"
    file.write_text(
        "import helper as h\n"
        "from helper import look\n"
        "def check(session):\n    return look(session)\n"
        "def test_plain():\n    session.run()\n"
        "def test_straight():\n    session._serializeIr(0)\n"
        "def test_by_helper():\n    check(1)\n"
        "def test_by_module():\n    h.look(1)\n"
        "def test_other_of_module():\n    h.other()\n"
        "def test_fixture(spy):\n    pass\n"
        "class TestClass:\n"
        "    def help(self):\n        return self.session._serializeIr\n"
        "    def test_method(self):\n        self.help()\n"
        "    def test_quiet(self):\n        pass\n"
    )
    assert scope.classify(file, tmp_path) == {
        "test_plain": scope.PUBLIC,
        "test_straight": IR,
        "test_by_helper": IR,
        "test_by_module": IR,
        "test_other_of_module": scope.PUBLIC,
        "test_fixture": LOG,
        "TestClass.test_method": IR,
        "TestClass.test_quiet": scope.PUBLIC,
    }


def test_what_a_whole_file_does_counts_for_each_of_its_tests(scope, tmp_path):
    file = tmp_path / "op_test.py"
    file.write_text("import ctypes\nctypes.cdll.LoadLibrary('op.so')\ndef test_one():\n    pass\n")
    assert scope.classify(file, tmp_path) == {"test_one": "loads C++ ops of the suite's own build"}


def test_items_belong_to_their_function_and_whole_files_to_most_of_them(scope):
    kinds = {"test_one": IR, "test_two": scope.PUBLIC, "Test.test_three": scope.PUBLIC}
    assert scope.classify_item("test_one[float-2]", kinds) == IR
    assert scope.classify_item("test_three", kinds) == scope.PUBLIC
    assert scope.classify_item("whole file", kinds) == scope.PUBLIC
