# SPDX-License-Identifier: Apache-2.0
"""A guest's state, to go on from as often as wanted: in a second where a boot takes ten.

The memory is a file that the saving QEMU shares and each later one maps privately, so that neither is ever copied; the
rest of the state is half a megabyte. Nothing may be connected over the network when it is taken.
"""
import time

from image.failure import GuestFailure

SAVE_S = 60


class SavedGuest:
    def __init__(self, guest):
        """Takes the state of a guest made with in_file=True, and its power."""
        self.guest, self.state = guest, guest.work / "state"
        guest.qmp("stop")
        self._ignore_memory()
        guest.qmp("migrate", uri=f"exec:cat >{self.state}")
        self._wait(lambda: guest.qmp("query-migrate")["status"] == "completed", "saved")
        guest.kill()

    def _ignore_memory(self):
        self.guest.qmp("migrate-set-capabilities", capabilities=[{"capability": "x-ignore-shared", "state": True}])

    @staticmethod
    def _wait(condition, what):
        end = time.monotonic() + SAVE_S
        while not condition():
            if time.monotonic() > end:
                raise GuestFailure(f"a guest's state was not {what} within {SAVE_S} s")
            time.sleep(0.01)

    def go_on(self):
        """The guest, running on from where it was saved."""
        self.guest.power_on(["-incoming", "defer"], self.guest.memory_file(share="off"))
        self._ignore_memory()
        self.guest.qmp("migrate-incoming", uri=f"exec:cat {self.state}")
        self._wait(lambda: self.guest.qmp("query-status")["status"] == "paused", "loaded")
        self.guest.qmp("cont")
        return self.guest
