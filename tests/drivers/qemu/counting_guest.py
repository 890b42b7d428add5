"""A guest of one disk sector that counts: eighteen times a second it writes a larger number to its serial console.

It has its count in a register alone, so a number that follows the one before shows that nothing was lost. It writes it
into sixteen megabytes of its memory, too, page by page, so that a migration that may take one a second goes on until it
is told to end. It powers itself off if the power button is pressed. The ports are those of `tiny_guest`.
"""

from __future__ import annotations

from tests.drivers.qemu.tiny_guest import SECTOR, SIZE

MEMORY_MIB = 32  # that it needs

CODE = bytes.fromhex(
    "31c0"  # 7c00       xor ax, ax
    "8ed8"  # 7c02       mov ds, ax
    "6631ed"  # 7c04     xor ebp, ebp
    "ba0206"  # 7c07     mov dx, 0x602          ; PM1 enable: the power button
    "b80001"  # 7c0a     mov ax, 0x100
    "ef"  # 7c0d         out dx, ax
    "fb"  # 7c0e  again: sti
    "f4"  # 7c0f         hlt                    ; until the timer ticks
    "ba0006"  # 7c10     mov dx, 0x600          ; PM1 status
    "ed"  # 7c13         in ax, dx
    "f6c401"  # 7c14     test ah, 1
    "7407"  # 7c17       jz count
    "ba0406"  # 7c19     mov dx, 0x604          ; PM1 control: power off
    "b80020"  # 7c1c     mov ax, 0x2000
    "ef"  # 7c1f         out dx, ax
    "6645"  # 7c20 count: inc ebp
    "fa"  # 7c22         cli                    ; es is all of the memory, after a moment in protected mode
    "660f0116787c"  # 7c23 lgdt [gdtr]
    "0f20c0"  # 7c29     mov eax, cr0
    "0c01"  # 7c2c       or al, 1
    "0f22c0"  # 7c2e     mov cr0, eax
    "bb0800"  # 7c31     mov bx, 8
    "8ec3"  # 7c34       mov es, bx
    "24fe"  # 7c36       and al, 0xfe
    "0f22c0"  # 7c38     mov cr0, eax
    "66bf00001000"  # 7c3b mov edi, 0x100000
    "266766892f"  # 7c41 page: mov es:[edi], ebp
    "6681c700100000"  # 7c46 add edi, 0x1000
    "6681ff00001001"  # 7c4d cmp edi, 0x1100000
    "72eb"  # 7c54       jb page
    "6689eb"  # 7c56     mov ebx, ebp
    "be0800"  # 7c59     mov si, 8
    "baf803"  # 7c5c     mov dx, 0x3f8
    "66c1c304"  # 7c5f digit: rol ebx, 4
    "88d8"  # 7c63       mov al, bl
    "240f"  # 7c65       and al, 15
    "0430"  # 7c67       add al, '0'
    "3c39"  # 7c69       cmp al, '9'
    "7602"  # 7c6b       jbe ok
    "0427"  # 7c6d       add al, 'a' - '9' - 1
    "ee"  # 7c6f     ok: out dx, al
    "4e"  # 7c70         dec si
    "75ec"  # 7c71       jnz digit
    "b00a"  # 7c73       mov al, 10
    "ee"  # 7c75         out dx, al
    "eb96"  # 7c76       jmp again
    "0f007e7c0000"  # 7c78 gdtr: 16 bytes at gdt
    "0000000000000000"  # 7c7e gdt: nothing
    "ffff00000092cf00"  # 7c86 data: 4 GiB from 0
)


def disk() -> bytes:
    """The raw disk."""
    return (CODE.ljust(SECTOR - 2, b"\0") + b"\x55\xaa").ljust(SIZE, b"\0")


def counts(console: str) -> list[int]:
    """What it has written, without a line that is not whole."""
    return [int(line, 16) for line in console.split("\n")[:-1] if len(line) == 8]
