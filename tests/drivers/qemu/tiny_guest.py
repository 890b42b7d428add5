"""A guest of one disk sector: it starts in a moment and does what a driver needs of a guest, and no more.

It writes some lines to its serial console, then, eighteen times a second: powers itself off if the power button was
pressed, lets go of devices that shall be unplugged, and sends back what was typed on the console.

The ports are those of QEMU's q35 machine: ACPI PM1 at 0x600 (as SeaBIOS sets it), PCI hotplug at 0xcc0 (QEMU's
document «ACPI PCI hotplug interface»), the serial port at 0x3f8.
"""

from __future__ import annotations

ORIGIN = 0x7C00  # where the BIOS loads it
SECTOR = 512
SIZE = 1 << 20  # a BIOS does not start from a disk of one sector

GREETING = b"Linux version 0 (one sector)\r\nIt has no kernel at all.\r\ntiny login: \r\n"
LAST_LINE = "tiny login: "

CODE = bytes.fromhex(
    "31c0"  # 7c00       xor ax, ax
    "8ed8"  # 7c02       mov ds, ax
    "be5a7c"  # 7c04     mov si, greeting
    "baf803"  # 7c07     mov dx, 0x3f8
    "ac"  # 7c0a  next:  lodsb
    "84c0"  # 7c0b       test al, al
    "7403"  # 7c0d       jz told
    "ee"  # 7c0f         out dx, al
    "ebf8"  # 7c10       jmp next
    "ba0206"  # 7c12 told: mov dx, 0x602        ; PM1 enable: the power button
    "b80001"  # 7c15     mov ax, 0x100
    "ef"  # 7c18         out dx, ax
    "fb"  # 7c19  again: sti
    "f4"  # 7c1a         hlt                    ; until the timer ticks
    "ba0006"  # 7c1b     mov dx, 0x600          ; PM1 status
    "ed"  # 7c1e         in ax, dx
    "f6c401"  # 7c1f     test ah, 1
    "7407"  # 7c22       jz plugs
    "ba0406"  # 7c24     mov dx, 0x604          ; PM1 control: power off
    "b80020"  # 7c27     mov ax, 0x2000
    "ef"  # 7c2a         out dx, ax
    "6631c9"  # 7c2b plugs: xor ecx, ecx
    "bad00c"  # 7c2e bus: mov dx, 0xcd0         ; select a bus
    "6689c8"  # 7c31     mov eax, ecx
    "66ef"  # 7c34       out dx, eax
    "bac40c"  # 7c36     mov dx, 0xcc4          ; devices that shall go
    "66ed"  # 7c39       in eax, dx
    "6685c0"  # 7c3b     test eax, eax
    "7405"  # 7c3e       jz none
    "bac80c"  # 7c40     mov dx, 0xcc8          ; eject them
    "66ef"  # 7c43       out dx, eax
    "41"  # 7c45   none: inc cx
    "83f930"  # 7c46     cmp cx, 48
    "72e3"  # 7c49       jb bus
    "bafd03"  # 7c4b     mov dx, 0x3fd          ; was something typed?
    "ec"  # 7c4e         in al, dx
    "a801"  # 7c4f       test al, 1
    "74c6"  # 7c51       jz again
    "baf803"  # 7c53     mov dx, 0x3f8
    "ec"  # 7c56         in al, dx
    "ee"  # 7c57         out dx, al
    "ebbf"  # 7c58       jmp again
)  # 7c5a                greeting:


def disk() -> bytes:
    """The raw disk."""
    code = CODE + GREETING + b"\0"
    assert int.from_bytes(CODE[5:7], "little") == ORIGIN + len(CODE), "the code refers to where the greeting is"
    return (code.ljust(SECTOR - 2, b"\0") + b"\x55\xaa").ljust(SIZE, b"\0")
