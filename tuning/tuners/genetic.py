"""AutoTVM's GATuner: generations of candidates, crossed and mutated, parents drawn by their speed."""

from __future__ import annotations

from collections.abc import Sequence

from mlc.tuning.results import MeasureResult
from mlc.tuning.task import Task
from mlc.tuning.tuners.base import BaseTuner
from mlc.tuning.tuners.genes import Genes
from mlc.tuning.tuners.protocol import History

POPULATION = 100
ELITES = 3
MUTATION = 0.1
"""The probability with which a digit of a child changes. All three numbers are AutoTVM's."""


class GeneticTuner(BaseTuner):
    """
    A generation is measured whole; the next one is bred from it and the elites of all before.

    The score of a candidate is its FLOP/s, 0 where it failed. The default is one of the first generation, whose others
    are random. Candidates that the tuner is told of without having proposed them join the generation.
    """

    def __init__(
        self,
        task: Task,
        seed: int = 0,
        history: History = (),
        population: int = POPULATION,
        elites: int = ELITES,
        mutation: float = MUTATION,
    ) -> None:
        super().__init__(task, seed, history)
        self.genes = Genes(self.space)
        self.population = min(population, self.space.size)
        self.elites_kept = min(elites, self.population)
        self.mutation = mutation
        self.generation: list[int] = []
        """The candidates of this generation, in the order in which they are proposed."""
        self.elites: list[tuple[int, float]] = []
        """The best candidates of all generations before, with their scores."""
        self._scores: dict[int, float] = {}
        self._visited: set[int] = set()
        self._found_first_generation = False

    def _next(self, count: int) -> list[int]:
        if not self._found_first_generation:
            self._start()
        waiting = [index for index in self.generation if index not in self.given]
        while not waiting:  # all proposed, and some not measured: others join the generation
            waiting = [self._unvisited()]
            self._join(waiting[0])
        return waiting[:count]

    def _learn(self, results: Sequence[tuple[int, MeasureResult]]) -> None:
        for index, result in results:
            if index not in self._visited:
                self._join(index)
            self._scores[index] = max(1, self.task.flops) / result.cost
        measured = self.generation and all(index in self._scores for index in self.generation)
        if self._found_first_generation and measured and len(self._visited) < self.space.size:
            self._breed()

    def _join(self, index: int) -> None:
        self._visited.add(index)
        self.generation.append(index)

    def _start(self) -> None:
        """The first generation: what is known already, and random candidates."""
        self._found_first_generation = True
        for index in sorted(self.given - self._visited):
            self._join(index)
        while len(self.generation) < self.population:
            self._join(self._unvisited())

    def _unvisited(self) -> int:
        """A random candidate that was not visited."""
        if 2 * len(self._visited) > self.space.size:
            return self.random.choice([index for index in range(self.space.size) if index not in self._visited])
        while (index := self.random.randrange(self.space.size)) in self._visited:
            pass
        return index

    def _breed(self) -> None:
        """Replace a generation that is measured by the next one."""
        left = self.space.size - len(self._visited)
        if left <= self.population:
            children = [index for index in range(self.space.size) if index not in self._visited]
            self._visited.update(children)
        else:
            pool = [(index, self._scores[index]) for index in self.generation] + self.elites
            self.elites = best_of(pool, self.elites_kept)
            scores = [score for _, score in pool]
            children = [self._child(pool, scores) for _ in range(self.population)]
        self.generation, self._scores = children, {}

    def _child(self, pool: Sequence[tuple[int, float]], scores: Sequence[float]) -> int:
        """A candidate that was not visited, from two parents."""
        first, second = self._parents(scores)
        digits = self._cross(self.genes.digits(pool[first][0]), self.genes.digits(pool[second][0]))
        for at, size in enumerate(self.genes.dims):
            if self.random.random() < self.mutation:
                digits[at] = self.random.randrange(size)
        while (index := self.genes.index(digits)) in self._visited:
            at = self.random.randrange(len(digits))
            digits[at] = self.random.randrange(self.genes.dims[at])
        self._visited.add(index)
        return index

    def _parents(self, scores: Sequence[float]) -> tuple[int, int]:
        """Two different places of the pool, drawn by probabilities in proportion to the scores."""
        weights = [score + 1e-8 for score in scores]
        first = self.random.choices(range(len(weights)), weights)[0]
        weights[first] = 0.0
        return first, self.random.choices(range(len(weights)), weights)[0]

    def _cross(self, first: list[int], second: list[int]) -> list[int]:
        """One-point crossover: the head of the first parent and the tail of the second."""
        point = self.random.randrange(len(first))
        return first[:point] + second[point:]


def best_of(pool: Sequence[tuple[int, float]], count: int) -> list[tuple[int, float]]:
    """The candidates of the highest scores."""
    return sorted(pool, key=lambda one: -one[1])[:count]
