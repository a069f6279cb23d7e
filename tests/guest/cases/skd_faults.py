# SPDX-License-Identifier: Apache-2.0
"""What our model of the S1120 does wrong, and how the kernel's own driver gets over it. A fault waits at blocks of its own,
which the guest reads when it is time; the firmware restarts when a load is in the middle of its blocks."""
KERNELS = ["5.10"]
COST_S = 30
MIB = 2048  # in sectors
DISK_MIB = 64
LOAD_MIB = 8
TRAPS = 48 * MIB  # behind all that is written
FAULTS = {
    "broken": "medium-error",
    "again": "status,key=0xb,asc=0x4b00",  # aborted: the driver tries once more
    "busy": "busy,for=2s",
    "dead": "fault",
    "gone": "gone",
}


def run(test):
    faults = []

    def fault(kind, lba, sectors):
        faults.extend(["--fault", f"{kind},lba={lba},blocks={sectors}"])
        return lba

    traps = {name: fault(kind, TRAPS + 8 * number, 8) for number, (name, kind) in enumerate(FAULTS.items())}
    # Loads of 8 MiB are slow, so that a fault finds some of their I/O unfinished, wherever it strikes.
    calm = fault("late@0x0,by=10ms", 32 * MIB, 2 * LOAD_MIB * MIB)
    rough = calm + LOAD_MIB * MIB
    fault("restart@0x2,for=300ms", rough + LOAD_MIB * MIB // 2, 8)

    card = test.emulate("skd", *faults, f"ram://?size={DISK_MIB}M")
    test.guest(cards=[card], calm=calm, rough=rough, **traps).run()
    card.stop()
