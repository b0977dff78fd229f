from tensorflow_serving.apis import model_pb2 as _model_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RankRequest(_message.Message):
    __slots__ = ("model_spec", "context", "candidates", "rank_by", "top_k", "explain")
    class ContextEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Column
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Column, _Mapping]] = ...) -> None: ...
    class CandidatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Column
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Column, _Mapping]] = ...) -> None: ...
    MODEL_SPEC_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    RANK_BY_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    model_spec: _model_pb2.ModelSpec
    context: _containers.MessageMap[str, Column]
    candidates: _containers.MessageMap[str, Column]
    rank_by: str
    top_k: int
    explain: bool
    def __init__(self, model_spec: _Optional[_Union[_model_pb2.ModelSpec, _Mapping]] = ..., context: _Optional[_Mapping[str, Column]] = ..., candidates: _Optional[_Mapping[str, Column]] = ..., rank_by: _Optional[str] = ..., top_k: _Optional[int] = ..., explain: bool = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("strings", "binaries", "ints", "floats", "missing", "lengths")
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    BINARIES_FIELD_NUMBER: _ClassVar[int]
    INTS_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    strings: Strings
    binaries: Binaries
    ints: Ints
    floats: Floats
    missing: _containers.RepeatedScalarFieldContainer[int]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, strings: _Optional[_Union[Strings, _Mapping]] = ..., binaries: _Optional[_Union[Binaries, _Mapping]] = ..., ints: _Optional[_Union[Ints, _Mapping]] = ..., floats: _Optional[_Union[Floats, _Mapping]] = ..., missing: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ...) -> None: ...

class Strings(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class Binaries(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, values: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Ints(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class Floats(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class RankResponse(_message.Message):
    __slots__ = ("model_spec", "scores", "ranking", "explanation", "state")
    class ScoresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Scores
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Scores, _Mapping]] = ...) -> None: ...
    MODEL_SPEC_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    RANKING_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    model_spec: _model_pb2.ModelSpec
    scores: _containers.MessageMap[str, Scores]
    ranking: _containers.RepeatedScalarFieldContainer[int]
    explanation: Explanation
    state: StateUse
    def __init__(self, model_spec: _Optional[_Union[_model_pb2.ModelSpec, _Mapping]] = ..., scores: _Optional[_Mapping[str, Scores]] = ..., ranking: _Optional[_Iterable[int]] = ..., explanation: _Optional[_Union[Explanation, _Mapping]] = ..., state: _Optional[_Union[StateUse, _Mapping]] = ...) -> None: ...

class StateUse(_message.Message):
    __slots__ = ("as_of", "lag_seconds", "is_degraded")
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    IS_DEGRADED_FIELD_NUMBER: _ClassVar[int]
    as_of: str
    lag_seconds: float
    is_degraded: bool
    def __init__(self, as_of: _Optional[str] = ..., lag_seconds: _Optional[float] = ..., is_degraded: bool = ...) -> None: ...

class Scores(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("attention", "gates", "fields", "events")
    class AttentionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Weights
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Weights, _Mapping]] = ...) -> None: ...
    class GatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Weights
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Weights, _Mapping]] = ...) -> None: ...
    class FieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Scores
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Scores, _Mapping]] = ...) -> None: ...
    class EventsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Column
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Column, _Mapping]] = ...) -> None: ...
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    GATES_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    attention: _containers.MessageMap[str, Weights]
    gates: _containers.MessageMap[str, Weights]
    fields: _containers.MessageMap[str, Scores]
    events: _containers.MessageMap[str, Column]
    def __init__(self, attention: _Optional[_Mapping[str, Weights]] = ..., gates: _Optional[_Mapping[str, Weights]] = ..., fields: _Optional[_Mapping[str, Scores]] = ..., events: _Optional[_Mapping[str, Column]] = ...) -> None: ...

class Weights(_message.Message):
    __slots__ = ("width", "values")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    width: int
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, width: _Optional[int] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...
