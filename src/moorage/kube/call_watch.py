"""Plugins that take long: the process goes on meanwhile, and a call that takes too long is ended.

Plugins are called in the thread of the event loop, and a plugin that computes, sleeps or waits for
an answer would keep everything else waiting: the lease, the health checks, bindings. A timer's
signal interrupts it wherever it is in Python code or in a system call. The signal's handler lets
the loop take some turns, again and again, and when the call's time is up it raises
`CallTimedOutError` in the plugin. While a plugin is at work nothing that it looks at changes; that
is for the scheduler to see to (`pausing`).

Only the main thread gets signals. A call in another thread, as attempts are made in where extenders
are asked, is ended only if it runs Python code. What stays in C code and does not look for signals
(a long NumPy operation, some database drivers) cannot be interrupted at all. See decision 0026.
"""

import asyncio
import ctypes
import logging
import signal
import sys
import threading
import time
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable
from types import FrameType
from typing import Any

from moorage.errors import CallTimedOutError
from moorage.framework.calls import CALL_CODE
from moorage.framework.pacing import PluginCalls

log = logging.getLogger(__name__)

_PERIOD = 0.2
"""How often it is looked whether a plugin is at work; a call that is found twice takes long."""
_TURNS_PERIOD = 0.04
_TURNS_SECONDS = 0.02


class CallWatch:
    """Watches the calls of plugins from the main thread, where the loop runs if there is one.

    `pausing` is called whenever the loop goes on during a call. Calls are ended early once `ending`
    is true.
    """

    def __init__(
        self,
        calls: PluginCalls,
        pausing: Callable[[], None] = lambda: None,
        ending: Callable[[], bool] = lambda: False,
    ) -> None:
        self._calls = calls
        self._pausing = pausing
        self._ending = ending
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = False
        self._call: object = None
        self._since = 0.0
        self._taking_turns = False

    def start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Watch from now on, if that is possible here; harmless if repeated."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
            self._loop, self._started = loop, True
            signal.signal(signal.SIGALRM, self._tick)
            signal.setitimer(signal.ITIMER_REAL, _PERIOD, _PERIOD)

    def stop(self) -> None:
        """Watch no more."""
        if self._started:
            self._started = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _tick(self, number: int, frame: FrameType | None) -> None:
        del number
        call, now = self._calls.current, time.monotonic()
        if call is not self._call:
            self._call, self._since = call, now
            period = _PERIOD if call is None else _TURNS_PERIOD
            signal.setitimer(signal.ITIMER_REAL, period, period)
            return
        if call is None:
            return
        here = _is_in_call(frame)
        thread = 0 if here else _other_thread()
        if not (here or thread):
            return  # it begins or ends at this very moment, or the loop takes its turns
        seconds = self._calls.budget(call[0])
        if self._ending():
            self._end(thread, "the scheduler ends")
        elif now - self._since >= seconds:
            self._end(thread, f"no answer within {seconds:g}s")
        elif not self._taking_turns:
            self._take_turns()

    def _end(self, thread: int, why: str) -> None:
        if not thread:
            raise CallTimedOutError(why)
        error = ctypes.py_object(CallTimedOutError)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)

    def _take_turns(self) -> None:
        """Let the loop go on for a moment, from within the task that makes the call."""
        loop = self._loop
        if not isinstance(loop, asyncio.BaseEventLoop):
            return  # another kind of loop, which cannot be asked to
        self._taking_turns = True
        task = asyncio.current_task(loop)
        inner: Any = loop
        ready = len(inner._ready)
        try:
            self._pausing()
            if task is not None:
                _leave_task(loop, task)
            try:
                until = time.monotonic() + _TURNS_SECONDS
                loop.call_later(_TURNS_SECONDS, _nothing)
                while time.monotonic() < until:
                    inner._run_once()
            finally:
                if task is not None:
                    _enter_task(loop, task)
                # The turn that makes the call counted what was ready, and will take as many.
                while len(inner._ready) < ready:
                    loop.call_soon(_nothing)
        except Exception:
            log.exception("the loop could not go on beside a plugin")
        finally:
            self._taking_turns = False


_TURNS_CODE = CallWatch._take_turns.__code__


def _is_in_call(frame: FrameType | None) -> bool:
    """Is the innermost of all that is under way in a thread a plugin's own code?"""
    if frame is not None and frame.f_code is CALL_CODE:
        return False
    while frame is not None and frame.f_code is not _TURNS_CODE:
        if frame.f_code is CALL_CODE:
            return True
        frame = frame.f_back
    return False


def _other_thread() -> int:
    """The thread in which a plugin is at work, if it is another one."""
    here = threading.get_ident()
    frames = sys._current_frames().items()
    return next((thread for thread, one in frames if thread != here and _is_in_call(one)), 0)


def _nothing() -> None:
    """To be called by the loop."""
