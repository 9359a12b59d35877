"""What is known of an op stands once, and what says the same elsewhere is held against it."""

from __future__ import annotations

import torch

from openipu.capture.record import mixed_precision
from openipu.ops import TRAITS, Trait, find_rule, find_traits, has_trait
from openipu.ops.rules import matrix, norm
from openipu.ops.rules.recurrent import RECURRENT
from openipu.ops.table import MATMUL_AND_CONVOLUTION, SOFTMAX_AND_NORMS
from openipu.run.rewrites.half.operators import PRODUCTS
from openipu.run.rewrites.micro_batches.rules.products import PRODUCTS as FOLDED_PRODUCTS


def _is_operator(name):
    namespace, _, short = name.partition(".")
    return hasattr(getattr(torch.ops, namespace), short)


def test_every_name_is_an_operator_of_this_torch():
    aten = [name for name in TRAITS if name.startswith("aten.")]

    assert [name for name in aten if not _is_operator(name)] == []


def test_overloads_and_in_place_forms_have_the_traits_of_their_op():
    assert find_traits("aten.mm.default") == find_traits("aten.mm")
    assert has_trait("aten.relu_.default", Trait.EXACT)
    assert find_traits("aten.mm_out_of_nowhere.default") == Trait.NONE


def test_a_vector_norm_is_no_normalisation():
    assert not has_trait("aten.linalg_vector_norm.default", Trait.NORM)
    assert not has_trait("aten.norm.Scalar", Trait.NORM)
    assert has_trait("aten.native_layer_norm.default", Trait.NORM)


def test_rows_that_cost_a_normalisation_are_marked_as_one():
    normalising = {name for name, rule in SOFTMAX_AND_NORMS.items() if rule.__module__ == norm.__name__}
    assert normalising == {name for name, traits in TRAITS.items() if Trait.NORM in traits}


def test_rows_that_cost_a_matrix_product_are_marked_as_one():
    costed = {
        name
        for name, rule in MATMUL_AND_CONVOLUTION.items()
        if rule.__module__ == matrix.__name__ and name.startswith("aten.")
    }
    assert costed <= {name for name, traits in TRAITS.items() if Trait.PRODUCT in traits}


def test_wider_traits_contain_narrower_ones():
    for narrow, wide in (
        (Trait.SERIALISABLE, Trait.MATMUL_OR_CONVOLUTION),
        (Trait.MATMUL_OR_CONVOLUTION, Trait.PRODUCT),
        (Trait.KEEPS_ORDER, Trait.VIEW),
    ):
        missing = [name for name, traits in TRAITS.items() if narrow in traits and wide not in traits]
        assert missing == [], (narrow, wide)


def test_recurrent_layers_have_rows():
    marked = [name for name, traits in TRAITS.items() if Trait.RECURRENT in traits]
    assert marked
    assert all(name in RECURRENT and find_rule(name) is not None for name in marked)


def test_what_the_runner_widens_or_folds_as_a_product_is_one():
    assert torch.ops.aten.mm.default in PRODUCTS
    assert all(has_trait(str(target), Trait.PRODUCT) for target in (*PRODUCTS, *FOLDED_PRODUCTS))


def test_functions_whose_operands_capture_aligns_as_a_product_become_products():
    plain = {getattr(function, "__name__", "") for function in mixed_precision._PRODUCTS}
    assert {"mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "addr", "dot", "mv", "vdot"} <= plain
    names = {name.removeprefix("aten.") for name, traits in TRAITS.items() if Trait.PRODUCT in traits}
    written_with_others = {"chain_matmul", "einsum", "ger", "inner", "multi_dot", "outer", "tensordot", "vecdot"}
    written_with_others |= {"linalg_multi_dot", "linalg_vecdot", "linalg_matmul", "__matmul__", "__rmatmul__"}
    written_with_others |= {"scaled_dot_product_attention"}
    assert plain - names <= written_with_others, plain - names
