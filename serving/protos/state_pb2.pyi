from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PushRequest(_message.Message):
    __slots__ = ("model", "events", "users", "items")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    model: str
    events: _containers.RepeatedCompositeFieldContainer[Row]
    users: _containers.RepeatedCompositeFieldContainer[Row]
    items: _containers.RepeatedCompositeFieldContainer[Row]
    def __init__(self, model: _Optional[str] = ..., events: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., users: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., items: _Optional[_Iterable[_Union[Row, _Mapping]]] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("columns",)
    class ColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.MessageMap[str, Value]
    def __init__(self, columns: _Optional[_Mapping[str, Value]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("text", "binary", "whole", "number", "flag")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    text: str
    binary: bytes
    whole: int
    number: float
    flag: bool
    def __init__(self, text: _Optional[str] = ..., binary: _Optional[bytes] = ..., whole: _Optional[int] = ..., number: _Optional[float] = ..., flag: bool = ...) -> None: ...

class PushResponse(_message.Message):
    __slots__ = ("counted", "late", "ahead", "repeated_events")
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    REPEATED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    counted: int
    late: _containers.RepeatedScalarFieldContainer[int]
    ahead: _containers.RepeatedScalarFieldContainer[int]
    repeated_events: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, counted: _Optional[int] = ..., late: _Optional[_Iterable[int]] = ..., ahead: _Optional[_Iterable[int]] = ..., repeated_events: _Optional[_Iterable[int]] = ...) -> None: ...
