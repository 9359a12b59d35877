"""Groups of replicas: who holds the same variable, who takes part in a collective.

In: a stride and a size, or the number of each replica's group. Out: a `ReplicaGrouping`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from popart import CommGroup, CommGroupType, VariableRetrievalMode, VariableSettings

if TYPE_CHECKING:
    from popxl.ir import Ir

_NOT_CONSTANT = "Groups whose members have a non-constant stride cannot be used in collectives. "


class ReplicaGrouping:
    """Replicas in groups of one size. `Ir.replica_grouping` makes them."""

    _ir: Ir
    _stride: int | None
    _assignment: list[int]

    def __init__(self) -> None:
        raise RuntimeError("Groups of replicas are made by `ir.replica_grouping`.")

    @classmethod
    def _make(cls, ir: Ir, stride: int | None, assignment: list[int]) -> ReplicaGrouping:
        made = object.__new__(cls)
        made._ir, made._stride, made._assignment = ir, stride, assignment
        return made

    @classmethod
    def _with_stride(cls, ir: Ir, stride: int = 1, group_size: int | None = None) -> ReplicaGrouping:
        replicas = ir.replication_factor
        size = replicas // stride if group_size is None else group_size
        if not 0 < stride <= replicas:
            raise ValueError(f"A stride is between 1 and the number of replicas, {replicas}, and this is {stride}.")
        if replicas % stride:
            raise ValueError(
                f"The stride must be a factor of the number of replicas: {replicas} is no multiple of {stride}."
            )
        if not 0 < size <= replicas:
            raise ValueError(f"Group size is between 1 and the number of replicas, {replicas}, and this is {size}.")
        if replicas % size or replicas % (size * (stride if size > 1 else 1)):
            raise ValueError(
                f"Groups of {size} with a stride of {stride} take {size * stride} replicas at a time, which must "
                "be a factor of "
                f"their number, {replicas}."
            )
        stride = stride if size > 1 else 1
        assignment = [-1] * replicas
        for group in range(replicas // size):
            first = assignment.index(-1)
            for place in range(size):
                assignment[first + place * stride] = group
        return cls._make(ir, stride, assignment)

    @classmethod
    def _from_assignment(cls, ir: Ir, assignment: list[int]) -> ReplicaGrouping:
        numbers = [int(number) for number in assignment]
        sizes = {number: numbers.count(number) for number in sorted(set(numbers))}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"All groups should have as many members. Group and size: {list(sizes.items())}")
        if list(sizes) != list(range(len(sizes))):
            raise ValueError(f"Groups are numbered 0, 1, 2 and so on without gaps, not {list(sizes)}.")
        if list(dict.fromkeys(numbers)) != list(sizes):
            raise ValueError(
                "New groups appear in the order of their numbers, and here they appear as "
                f"{list(dict.fromkeys(numbers))}."
            )
        if len(numbers) != ir.replication_factor:
            raise ValueError(f"`assignment` has {len(numbers)} entries for {ir.replication_factor} replicas.")
        strides = set()
        for number in sizes:
            members = [place for place, group in enumerate(numbers) if group == number]
            strides |= {after - before for before, after in pairwise(members)}
        if not strides:
            return cls._make(ir, 1, numbers)
        return cls._make(ir, strides.pop() if len(strides) == 1 else None, numbers)

    @property
    def stride(self) -> int:
        """How far replicas of a group are from each other."""
        if self._stride is None:
            raise NotImplementedError(_NOT_CONSTANT)
        return self._stride

    @property
    def group_size(self) -> int:
        """Replicas in a group."""
        return self._assignment.count(0)

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return max(self._assignment) + 1

    @property
    def assignment(self) -> list[int]:
        """The group of each replica."""
        return self._assignment

    @property
    def is_const(self) -> bool:
        """Is the stride the same everywhere?"""
        return self._stride is not None

    @property
    def const_rg(self) -> ReplicaGrouping:
        """A grouping with one stride that divides the groups of this one: itself, or replicas alone."""
        return self if self.is_const else self._ir.replica_grouping(1, 1)

    @property
    def members(self) -> list[list[int]]:
        """The replicas of each group."""
        return [
            [place for place, group in enumerate(self._assignment) if group == number]
            for number in range(self.num_groups)
        ]

    def transpose(self) -> ReplicaGrouping:
        """The grouping whose groups have one replica of each group of this one."""
        assignment = [0] * len(self._assignment)
        for group in self.members:
            for place, replica in enumerate(group):
                assignment[replica] = place
        order = list(dict.fromkeys(assignment))
        return self._ir.replica_grouping_from_assignments([order.index(number) for number in assignment])

    def _to_variable_settings(self, retrieval_mode: str | None = None) -> VariableSettings:
        """The same groups as PopART says them."""
        if retrieval_mode not in (None, "one_per_group", "all_replicas"):
            raise ValueError(f"Invalid retrieval_mode: {retrieval_mode}")
        every = retrieval_mode == "all_replicas"
        mode = VariableRetrievalMode.AllReplicas if every else VariableRetrievalMode.OnePerGroup
        size, replicas = self.group_size, len(self._assignment)
        if size == replicas:
            group = CommGroup(CommGroupType.All, 0)
        elif size == 1:
            group = CommGroup(CommGroupType.Ungrouped, 0)
        elif self.stride == 1:
            group = CommGroup(CommGroupType.Consecutive, size)
        elif self.stride * size == replicas:
            group = CommGroup(CommGroupType.Orthogonal, size)
        else:
            raise ValueError(f"PopART has no name for the groups {self.members}.")
        return VariableSettings(group, mode)

    def __repr__(self) -> str:
        if not self.is_const:
            return f"ReplicaGrouping(assignment={self.assignment})"
        return (
            f"ReplicaGrouping(num_replicas={len(self._assignment)}, stride={self.stride}, "
            f"group_size={self.group_size}, num_groups={self.num_groups})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReplicaGrouping):
            raise TypeError(f"Groups of replicas can be compared with such; {other!r} is a {type(other).__name__}.")
        return self._ir == other._ir and self.assignment == other.assignment

    def __hash__(self) -> int:
        return hash((self._ir, tuple(self._assignment)))
