"""The part of SARIF 2.1.0 that our reports use, as a JSON schema, after the OASIS standard (its section beside each
object). Stricter than the standard: a property that we do not mean to write is an error."""

from __future__ import annotations

from typing import Any

STRING = {"type": "string", "minLength": 1}
POSITIVE = {"type": "integer", "minimum": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def record(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object with these properties and no others."""
    properties = {**required, **optional}
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
        "additionalProperties": False,
    }


def listing(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


MESSAGE = record({"text": STRING})  # 3.11
LOCATION = {  # 3.4: relative with a base, or absolute
    "oneOf": [
        record(
            {
                "uri": {"type": "string", "format": "uri-reference", "pattern": "^(?!/)[!-~]+$"},
                "uriBaseId": {"const": "%SRCROOT%"},
            }
        ),
        record({"uri": {"type": "string", "format": "uri", "pattern": "^file:///[!-~]+$"}}),
    ]
}
REGION = record(  # 3.30: text regions
    {"startLine": POSITIVE},
    startColumn=POSITIVE,
    endLine=POSITIVE,
    endColumn=POSITIVE,
    snippet=record({"text": STRING}),  # 3.3
)
RULE = record(  # 3.49
    {"id": STRING, "shortDescription": MESSAGE, "fullDescription": MESSAGE},
    help=record({"text": STRING}, markdown=STRING),
    helpUri={"type": "string", "format": "uri", "pattern": "^https?://"},
    defaultConfiguration=record({"level": LEVEL}),
    properties=record({"tags": listing(STRING, uniqueItems=True)}, safety={"enum": ["safe", "unsafe", "display"]}),
)
REPLACEMENT = record({"deletedRegion": REGION}, insertedContent=record({"text": STRING}))  # 3.57
CHANGE = record({"artifactLocation": LOCATION, "replacements": listing(REPLACEMENT, minItems=1)})  # 3.56
FIX = record({"artifactChanges": listing(CHANGE, minItems=1, uniqueItems=True)}, description=MESSAGE)  # 3.55
PLACE = record({"artifactLocation": LOCATION, "region": REGION})  # 3.29
RESULT = record(  # 3.27
    {
        "message": MESSAGE,
        "ruleId": STRING,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "locations": listing(
            record({"physicalLocation": record({"artifactLocation": LOCATION, "region": REGION})}),
            minItems=1,
            maxItems=1,
        ),
        "partialFingerprints": {"type": "object", "additionalProperties": STRING, "minProperties": 1},
    },
    fixes=listing(FIX, minItems=1, uniqueItems=True),
    suppressions=listing(record({"kind": {"enum": ["inSource", "external"]}}), minItems=1),  # 3.35
    properties=record({"backends": listing(STRING, minItems=1)}),
)
NOTIFICATION = record(  # 3.58
    {"message": MESSAGE, "level": LEVEL},
    locations=listing(record({"physicalLocation": record({"artifactLocation": LOCATION})})),
)
INVOCATION = record(  # 3.20
    {"executionSuccessful": {"type": "boolean"}}, toolExecutionNotifications=listing(NOTIFICATION, minItems=1)
)
DRIVER = record(  # 3.19
    {"name": STRING}, version=STRING, semanticVersion=STRING, rules=listing(RULE, uniqueItems=True)
)
RUN = record(  # 3.14
    {"tool": record({"driver": DRIVER}), "results": listing(RESULT)},
    invocations=listing(INVOCATION, minItems=1),
    originalUriBaseIds={"type": "object", "additionalProperties": record({}, uri=STRING, description=MESSAGE)},
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    newlineSequences=listing(STRING, minItems=1, uniqueItems=True),
)
LOG: dict[str, Any] = {  # 3.13
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **record({"version": {"const": "2.1.0"}, "runs": listing(RUN, minItems=1)}, **{"$schema": STRING}),
}
