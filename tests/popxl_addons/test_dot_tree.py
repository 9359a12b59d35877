"""Trees of names: what goes in is found again, and a failed change leaves nothing behind."""

import pytest

from popxl_addons.dot_tree import DotTree, sanitise, to_mapping


def test_leaves_are_reached_by_attribute_key_and_number():
    tree = DotTree.from_dict({"encoder.0.weight": 1, "encoder.1.weight": 2, "bias": 3})
    assert tree.encoder[0].weight == 1
    assert tree.encoder[-1].weight == 2
    assert tree.get("encoder.1.weight") == 2
    assert tree["bias"] == tree.bias == 3
    assert "encoder.0" in tree
    assert "encoder.2" not in tree
    assert tree.keys() == ["encoder", "bias"]
    assert tree.keys_flat() == ["encoder.0.weight", "encoder.1.weight", "bias"]
    assert (tree.len(), tree.len_flat()) == (2, 3)


def test_what_is_missing_is_said_with_what_there_is():
    tree = DotTree(weight=1)
    with pytest.raises(AttributeError, match=r"no entry 'bias'.*weight"):
        _ = tree.bias
    with pytest.raises(KeyError, match="leaf"):
        tree.get("weight.part")
    with pytest.raises(KeyError):
        tree.get(-1)


def test_a_name_is_taken_once_unless_overwriting():
    tree = DotTree.from_dict({"a.b": 1})
    with pytest.raises(ValueError, match="exists"):
        tree.insert("a", 2)
    tree.insert("a.c", 2, overwrite=True)
    assert tree.to_dict() == {"a.b": 1, "a.c": 2}
    for name in ("not valid", "1a", ""):
        with pytest.raises(ValueError, match="identifier"):
            tree.insert(name, 0)
    with pytest.raises(ValueError, match="negative"):
        tree.insert(-1, 0)


def test_an_insertion_that_fails_below_changes_nothing():
    tree = DotTree.from_dict({"a.b": 1})
    with pytest.raises(ValueError, match="identifier"):
        tree.insert("a.c.not valid", 2, overwrite=True)
    assert tree.to_dict() == {"a.b": 1}


def test_copies_have_branches_of_their_own():
    tree = DotTree.from_dict({"a.b": 1})
    copy = tree.copy()
    copy.pop("a.b")
    assert tree.a.b == 1
    assert copy.len_flat() == 0


def test_clearing_keeps_the_branches():
    """Modules hold the branch of a part in the tree of the whole."""
    branch = DotTree(b=1)
    tree = DotTree(a=branch, c=2)
    tree._clear()
    assert branch.len() == 0
    branch.insert("b", 3)
    assert tree.to_dict() == {"a.b": 3}


def test_packing_is_the_inverse_of_unpacking():
    tree = DotTree.from_dict({"b.x": 1, "a": 2, "b.c": 3})
    names, leaves = tree.unpack()
    assert names == ("a", "b.c", "b.x")
    assert dict(DotTree.pack(names, leaves).to_dict()) == dict(tree.to_dict())


def test_selecting_mapping_and_joining():
    tree = DotTree.from_dict({"a.x": 1, "a.y": 2, "b": 3})
    assert tree.filter_keys(["a.y", "b"]).to_dict() == {"a.y": 2, "b": 3}
    assert tree.map(str).to_dict() == {"a.x": "1", "a.y": "2", "b": "3"}
    with pytest.raises(ValueError, match="more than once"):
        tree.filter_keys(["b", "b"])
    other = DotTree.from_dict({"a.y": 20, "b": 30, "c": 40})
    assert tree.to_mapping(other) == to_mapping(tree, other) == {2: 20, 3: 30}
    tree.update(DotTree(c=4))
    assert tree.c == 4


def test_names_of_other_things_become_identifiers():
    assert sanitise("fc1/weight:0") == "fc1_weight_0"
    assert sanitise("0th") == "_0th"
