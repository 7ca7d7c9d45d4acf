"""The edge: where elements from outside enter, and are judged.

Behind the edge every stream is valid, so operators assert instead of checking. An element that breaks a
rule either stops the query with an error that names it, or is set aside in the ledger; either way it is
not lost. The edge also brings each batch into the form that operators expect: data rows first, then the
strongest of the promises (a promise may be delayed, it only gets weaker); a control element that marks
an exact place ends its batch there. So does an external cti: with a finite memory it matters what came
before it.

Of a disordered source only the promises are judged: which adjust continues which is for the Finalize
behind it to find out. Only such a source may send external ctis.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from slackwater.admission import Admission
from slackwater.errors import InvalidElement
from slackwater.events import Adjust, Batch, Control, Element, Insert, Placed, Stream
from slackwater.ledger import Ledger
from slackwater.plan.consequences import Changed, Consequences
from slackwater.plan.nodes import Source
from slackwater.promises import Promises
from slackwater.punctuations import Closings, ExternalCti, Punctuation, gathered, is_of_payloads
from slackwater.validity import Validator

__all__ = ["LEDGER", "RAISE", "Edge", "OnInvalid"]


class OnInvalid(enum.Enum):
    """What becomes of an element that its stream may not contain."""

    RAISE = "raise"
    """the query stops with an error that names it"""
    LEDGER = "ledger"
    """it is set aside with its reason, and the query lives"""


RAISE = OnInvalid.RAISE
LEDGER = OnInvalid.LEDGER


class Edge:
    """The entrance of one source."""

    def __init__(
        self, source: Source, on_invalid: OnInvalid, ledger: Ledger, consequences: Consequences
    ) -> None:
        self._name, self._source = source.stream_name, source
        self._consequences = consequences
        self.schema = source.schema
        self._on_invalid = on_invalid
        self._ledger = ledger
        self._disordered = source.disordered
        self.validator = Admission(
            source.schema, declared=source.properties, chains=not source.disordered
        )

    def read(self, stream: Stream) -> Batch:
        """Elements, or a batch of them, with exactly the columns of the source."""
        if isinstance(stream, Batch):
            return self._with_fitting_promises(self._fitting(stream.checked()))
        if isinstance(stream, Element):
            raise InvalidElement(f"{stream!r} is one element, and no stream", hint="put it in a list")
        elements = list(stream)
        try:
            batch = Batch.of(elements, self.schema)
        except InvalidElement:
            if self._on_invalid is RAISE:
                raise
            batch = Batch.of([e for e in elements if self._fits(e)], self.schema)
        return self._with_fitting_promises(batch)

    def _with_fitting_promises(self, batch: Batch) -> Batch:
        """Promises about payloads in the types of the columns; those that do not fit are refused."""
        if not any(is_of_payloads(placed.control) for placed in batch.controls):
            return batch
        controls = []
        for position, control in batch.controls:
            try:
                controls.append(
                    Placed(
                        position,
                        control.fitted(self.schema)
                        if isinstance(control, Punctuation | Closings)
                        else control,
                    )
                )
            except InvalidElement as problem:
                if self._on_invalid is RAISE:
                    raise InvalidElement(
                        f"{self._name}: {problem.fact}",
                        detail=f"in {control!r}; {problem.detail}",
                        hint=problem.hint,
                    ) from problem
                for _, element in control.spread(position):
                    self._ledger.write(
                        element,
                        reason="promise does not fit the columns",
                        place=self._name,
                        detail=problem.fact,
                    )
        return replace(batch, controls=tuple(controls))

    def _fitting(self, batch: Batch) -> Batch:
        if batch.schema == self.schema:
            return batch
        if dict(batch.schema) == dict(self.schema):
            return replace(batch, payload=batch.payload.select(self.schema.names()))
        raise InvalidElement(
            f"{self._name}: the rows do not have the columns of the stream",
            detail=f"rows: {dict(batch.schema)}; stream: {dict(self.schema)}",
            hint="give from_dataframe the stream's schema, or select and cast the columns",
        )

    def _fits(self, element: Element) -> bool:
        """Whether the element has the stream's columns and types; else it goes to the ledger."""
        try:
            Batch.of([element], self.schema)
        except InvalidElement as problem:
            self._set_aside([element], "does not fit the columns", [problem.fact])
            return False
        return True

    def admit(self, batch: Batch) -> Iterator[Batch]:
        """The valid part of a batch, in the form that operators expect."""
        before = Promises(self.validator.promises.cti)
        valid = self.sifted(batch, self.validator)
        start, movable = 0, list[Control]()
        for position, control in valid.controls:
            if isinstance(control, ExternalCti):
                if not self._may_count(control):
                    continue
            elif control.movable:
                movable.append(control)
                continue
            before, told = self._told(before, movable)
            yield valid.slice(start, position).followed_by([*told, control])
            start, movable = position, []
        _, told = self._told(before, movable)
        yield valid.slice(start, valid.rows).followed_by(told)

    def _told(self, before: Promises, controls: list[Control]) -> tuple[Promises, list[Control]]:
        """What has been promised now, and the promises to hand on: those about payloads, then a cti."""
        after, ctis = before.strengthened_by(controls)
        patterns = [each for each in controls if is_of_payloads(each)]
        others = [c for c in controls if not isinstance(c, Punctuation | Closings)]
        return after, [*gathered(patterns, self.schema), *others, *ctis]

    def sifted(self, batch: Batch, validator: Validator) -> Batch:
        """What a validator finds valid; the rest raises, or is set aside."""
        if self._on_invalid is RAISE:
            return validator.admit(batch)
        valid, violations = validator.sift(batch)
        for rule, some in groupby(violations, key=lambda violation: violation.rule):
            broken = list(some)
            self._set_aside([v.element for v in broken], rule, [v.detail for v in broken])
        return valid

    def _set_aside(self, elements: list[Element], reason: str, details: list[str]) -> None:
        """Into the ledger, with what they would have changed if they are rows."""
        rows = [element for element in elements if isinstance(element, Insert | Adjust)]
        stretches = iter(self._consequences.of_output(self._source, Changed.of(rows)).pairs())
        for element, detail in zip(elements, details, strict=True):
            during = next(stretches) if isinstance(element, Insert | Adjust) else None
            self._ledger.write(element, reason=reason, place=self._name, detail=detail, during=during)

    def _may_count(self, control: ExternalCti) -> bool:
        if self._disordered:
            return True
        problem = InvalidElement(
            f"{self._name}: {control!r} came in a stream that is not declared disordered",
            hint="declare it with sw.stream(..., disordered=True), or send sw.cti",
        )
        if self._on_invalid is RAISE:
            raise problem
        self._ledger.write(
            control, reason="external cti in an ordered stream", place=self._name, detail=problem.hint
        )
        return False
