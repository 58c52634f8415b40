"""`torchmigrate server`: the language server, over standard input and output. Needs pygls, the extra `lsp`."""

from __future__ import annotations

import logging
import os
import signal
import sys

from torchmigrate.base.errors import UserError


def run() -> int:
    """Serve one editor; 0 where it said goodbye. Raises UserError where pygls is missing."""
    try:
        from torchmigrate.lsp.features import build
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        what = "the language server needs pygls 2, which is not installed here"
        raise UserError(what, "pip install 'torchmigrate[lsp]'") from None
    if sys.stdin.isatty():
        print("torchmigrate: waiting for an editor on standard input; Ctrl-C ends", file=sys.stderr)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is ever written, so nothing is to be tidied up
    if not os.environ.get("TORCHMIGRATE_DEBUG"):
        logging.getLogger("pygls").setLevel(logging.CRITICAL)  # tracebacks of what the editor is told anyway
    server, session = build()
    # what prints, prints to stderr from here on: stdout is the editor's
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        server.start_io(sys.stdin.buffer, out)
    return 0 if session.ended else 1
