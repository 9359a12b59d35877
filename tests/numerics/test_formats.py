"""The number formats: every code of the 8-bit and 16-bit ones, and what lies between them."""

import itertools
import math

import pytest
import torch

from openipu.errors import OptionError
from openipu.numerics import (
    FLOAT8_143,
    FLOAT8_152,
    FLOAT16,
    FLOAT32,
    FORMATS,
    Overflow,
    Rounding,
    decode_code,
    decode_tensor,
    encode_number,
    encode_tensor,
    round_to_format,
)

SMALL = [FLOAT16, FLOAT8_143, FLOAT8_152]
FLOAT8 = [FLOAT8_143, FLOAT8_152]


def list_codes(format):
    return range(1 << format.bits)


def list_numbers(format):
    """All finite numbers of a format that are not negative, in order."""
    return [decode_code(code, format) for code in range(format.infinity_code)]


def same(left, right):
    """Equal numbers, also NaNs, and zeros of one sign."""
    return (math.isnan(left) and math.isnan(right)) or (
        left == right and math.copysign(1, left) == math.copysign(1, right)
    )


def compare(values, format, rounding, overflow, bits=None):
    """The quick rounding of float32 values equals the slow one, number by number."""
    quick = round_to_format(values, format, rounding, overflow, bits).tolist()
    drawn = (
        [0] * len(quick)
        if bits is None
        else [(b >> (32 - format.dropped_bits)) % (1 << format.dropped_bits) for b in bits.tolist()]
    )
    for value, found, random in zip(values.tolist(), quick, drawn, strict=True):
        expected = decode_code(encode_number(value, format, rounding, overflow, random), format)
        assert same(found, expected), (
            f"{value!r} in {format.name}, {rounding}, {overflow}, {random}: {found} {expected}"
        )


def sample_exponents():
    """Float32 numbers with every exponent and either sign, mantissas at the edges and at random."""
    generator = torch.Generator().manual_seed(1)
    edges = torch.tensor([0, 1, 1 << 12, (1 << 13) - 1, 1 << 13, 1 << 19, 1 << 22, (1 << 23) - 1], dtype=torch.int64)
    mantissas = torch.cat([edges, torch.randint(1 << 23, (8,), generator=generator)])
    codes = (torch.arange(256)[:, None] << 23) + mantissas
    codes = torch.cat([codes, codes + (1 << 31)]).flatten()
    return ((codes + (1 << 31)) % (1 << 32) - (1 << 31)).to(torch.int32).view(torch.float32)


def draw(count, seed=0):
    return torch.randint(
        -(1 << 31), 1 << 31, (count,), dtype=torch.int32, generator=torch.Generator().manual_seed(seed)
    )


def test_formats_have_the_ranges_of_the_ipu():
    assert (FLOAT8_143.largest, FLOAT8_143.smallest, FLOAT8_143.smallest_normal) == (240.0, 2.0**-10, 2.0**-7)
    assert (FLOAT8_152.largest, FLOAT8_152.smallest, FLOAT8_152.smallest_normal) == (57344.0, 2.0**-17, 2.0**-15)
    assert (FLOAT16.largest, FLOAT16.smallest, FLOAT16.smallest_normal) == (65504.0, 2.0**-24, 2.0**-14)
    for format in FORMATS:
        information = torch.finfo(format.dtype)
        assert (format.largest, format.smallest_normal, format.bits) == (
            information.max,
            information.tiny,
            information.bits,
        )


@pytest.mark.parametrize("format", SMALL, ids=lambda format: format.name)
def test_every_code_decodes_as_in_pytorch_and_encodes_to_itself(format):
    codes = torch.arange(1 << format.bits)
    quick = decode_tensor(codes if format.bits == 8 else codes.to(torch.int16), format).tolist()
    for code, number in zip(list_codes(format), quick, strict=True):
        assert same(decode_code(code, format), number)
        expected = format.nan_code if math.isnan(number) else code
        assert encode_number(number, format) == expected
        assert decode_code(expected, format) == number or math.isnan(number)


@pytest.mark.parametrize("format", FLOAT8, ids=lambda format: format.name)
def test_float8_has_one_nan_no_infinity_and_no_negative_zero(format):
    numbers = [decode_code(code, format) for code in list_codes(format)]
    assert [code for code, number in enumerate(numbers) if not math.isfinite(number)] == [0x80]
    assert math.isnan(numbers[0x80])
    assert encode_number(-0.0, format) == 0
    assert encode_number(-format.smallest / 4, format) == 0


@pytest.mark.parametrize("format", SMALL, ids=lambda format: format.name)
def test_halfway_points_round_to_even_codes_and_their_neighbours_to_the_nearer_number(format):
    numbers = list_numbers(format)
    below, above = torch.tensor(numbers[:-1]), torch.tensor(numbers[1:])
    middle = (below + above) / 2  # exact: float32 has more bits
    even = torch.where(torch.arange(len(numbers) - 1) % 2 == 0, below, above)
    assert torch.equal(round_to_format(middle, format), even)
    assert torch.equal(round_to_format(torch.nextafter(middle, below), format), below)
    assert torch.equal(round_to_format(torch.nextafter(middle, above), format), above)
    compare(middle[:: max(1, len(numbers) // 500)], format, Rounding.NEAREST, Overflow.INFINITY)


@pytest.mark.parametrize("format", SMALL, ids=lambda format: format.name)
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("overflow", Overflow)
def test_float32_of_every_exponent_rounds_as_in_the_reference(format, rounding, overflow):
    values = sample_exponents()
    compare(values, format, rounding, overflow, draw(len(values)) if rounding is Rounding.STOCHASTIC else None)


@pytest.mark.parametrize("format", FLOAT8, ids=lambda format: format.name)
@pytest.mark.parametrize("rounding", Rounding)
def test_every_half_rounds_to_float8_as_in_the_reference(format, rounding):
    halves = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(torch.float16).to(torch.float32)
    bits = draw(len(halves)) if rounding is Rounding.STOCHASTIC else None
    compare(halves, format, rounding, Overflow.SATURATE, bits)


@pytest.mark.parametrize("format", SMALL, ids=lambda format: format.name)
def test_numbers_of_a_format_stay_in_every_mode(format):
    values = torch.tensor(list_numbers(format))
    for rounding, sign in itertools.product(Rounding, (1, -1)):
        rounded = round_to_format(sign * values, format, rounding, Overflow.NAN, draw(len(values)))
        assert torch.equal(rounded, sign * values)


def test_overflow_saturates_or_becomes_infinite_or_nan():
    values = torch.tensor([65519.0, 65520.0, 1e30, -7e4, torch.inf, -torch.inf])
    largest = 65504.0
    assert round_to_format(values, FLOAT16, overflow=Overflow.SATURATE).tolist() == [
        largest, largest, largest, -largest, torch.inf, -torch.inf
    ]  # fmt: skip
    assert round_to_format(values, FLOAT16).tolist() == [
        largest,
        torch.inf,
        torch.inf,
        -torch.inf,
        torch.inf,
        -torch.inf,
    ]
    nans = round_to_format(values, FLOAT16, overflow=Overflow.NAN)
    assert nans.isnan().tolist() == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("value", "format", "overflow", "code"),
    [
        (0.75, FLOAT8_143, Overflow.SATURATE, 0b00111100),
        (0.1875, FLOAT8_143, Overflow.SATURATE, 0b00101100),
        (1.5, FLOAT8_143, Overflow.SATURATE, 0b01000100),
        (0.25, FLOAT8_152, Overflow.SATURATE, 0b00111000),
        (0.03125, FLOAT8_152, Overflow.SATURATE, 0b00101100),
        (250.0, FLOAT8_143, Overflow.SATURATE, 0b01111111),
        (250.0, FLOAT8_143, Overflow.NAN, 0b10000000),
        (70000.0, FLOAT8_152, Overflow.SATURATE, 0b01111111),
        (70000.0, FLOAT8_152, Overflow.NAN, 0b10000000),
        (math.inf, FLOAT8_152, Overflow.SATURATE, 0b10000000),
    ],
)
def test_published_float8_examples(value, format, overflow, code):
    assert encode_number(value, format, overflow=overflow) == code
    assert encode_tensor(round_to_format(torch.tensor([value]), format, overflow=overflow), format).item() == code


@pytest.mark.parametrize("format", SMALL, ids=lambda format: format.name)
@pytest.mark.parametrize("value", [1.0 + 1 / 3000, 3.14159, 0.1, -0.7, 2.0**-17 + 2.0**-26, 1e-3, 3e-8])
def test_stochastic_rounding_is_right_on_average(format, value):
    count = 100_000
    values = torch.full((count,), value)
    rounded = round_to_format(values, format, Rounding.STOCHASTIC, Overflow.SATURATE, draw(count, seed=5)).double()
    found = sorted(set(rounded.tolist()))
    exact = values[0].double().item()
    assert 1 <= len(found) <= 2
    assert found[0] <= exact <= found[-1]
    step = found[-1] - found[0]
    share = (exact - found[0]) / step if step else 0.0
    error = step * math.sqrt(share * (1 - share) / count)
    assert abs(rounded.mean().item() - exact) <= 5 * error + step * 2.0**-format.dropped_bits


def test_stochastic_rounding_without_bits_is_refused():
    with pytest.raises(OptionError, match="random bits"):
        round_to_format(torch.ones(2), FLOAT16, Rounding.STOCHASTIC)


def test_float32_codes_are_those_of_the_machine():
    for number in (1.0, -2.5, 1e-45, 3.4e38, 0.0, -0.0):
        code = encode_tensor(torch.tensor([number]), FLOAT32).item() % (1 << 32)
        assert encode_number(torch.tensor(number).item(), FLOAT32) == code
        assert same(decode_code(code, FLOAT32), torch.tensor(number).item())
