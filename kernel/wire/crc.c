// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * CRC32C of an FPDU, alone or while it is copied.
 *
 * SSE4.2's crc32 and arm64's crc32c work on general registers, so they need no
 * FPU section, which costs more than the sum of an FPDU of Ethernet's size. One
 * takes up to three cycles and can begin every cycle: three neighbouring blocks
 * are summed side by side. Their sums are joined with the rule that
 * crc(a . b) = crc(a . 0...) ^ crc(b), the latter begun with 0, and that
 * appending zeros to a is linear in crc(a).
 */
#include "wire/crc.h"

#ifdef __KERNEL__
#include <linux/crc32c.h>
#if defined(CONFIG_X86_64)
#include "wire/cpu.h"
#define KW_CRC_X86
#define kw_crc_has_insn()	kw_cpu_has(X86_FEATURE_XMM4_2)
#elif defined(CONFIG_ARM64)
#include "wire/cpu.h"
#define KW_CRC_ARM64
#define kw_crc_has_insn()	kw_cpu_has(ARM64_HAS_CRC32)
#endif
#elif defined(__x86_64__)
#define KW_CRC_X86
#define kw_crc_has_insn()	__builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define KW_CRC_ARM64
#define kw_crc_has_insn()	(getauxval(AT_HWCAP) & HWCAP_CRC32)
#endif

/* The instructions for 8, 4, 2 and 1 bytes in %1, of the sum in %0. */
#if defined(KW_CRC_X86)
#define KW_CRC_INSN
#define KW_CRC_INSN8	"crc32q %1, %0"
#define KW_CRC_INSN4	"crc32l %1, %0"
#define KW_CRC_INSN2	"crc32w %1, %0"
#define KW_CRC_INSN1	"crc32b %1, %0"
#elif defined(KW_CRC_ARM64)
#define KW_CRC_INSN
/* Compilers do not use them unasked: their assemblers have to be asked, too. */
#define KW_CRC_EXT	".arch_extension crc\n\t"
#define KW_CRC_INSN8	KW_CRC_EXT "crc32cx %w0, %w0, %1"
#define KW_CRC_INSN4	KW_CRC_EXT "crc32cw %w0, %w0, %w1"
#define KW_CRC_INSN2	KW_CRC_EXT "crc32ch %w0, %w0, %w1"
#define KW_CRC_INSN1	KW_CRC_EXT "crc32cb %w0, %w0, %w1"
#endif

#ifdef KW_CRC_INSN

/* Bytes of a block, multiples of 8: long ones for segments, short for rests. */
#define KW_CRC_LONG	448
#define KW_CRC_SHORT	128

/*
 * What a sum becomes when KW_CRC_LONG or KW_CRC_SHORT zeros follow: [i][j] is
 * that of j << 4 * i. Computed by shifting the polynomial 0x82f63b78;
 * tests/unit/crc_test.cc would notice a wrong one.
 */
static const u32 kw_crc_long[8][16] = {
	{ 0x00000000, 0x9af01f2d, 0x300c48ab, 0xaafc5786,
	  0x60189156, 0xfae88e7b, 0x5014d9fd, 0xcae4c6d0,
	  0xc03122ac, 0x5ac13d81, 0xf03d6a07, 0x6acd752a,
	  0xa029b3fa, 0x3ad9acd7, 0x9025fb51, 0x0ad5e47c },
	{ 0x00000000, 0x858e33a9, 0x0ef011a3, 0x8b7e220a,
	  0x1de02346, 0x986e10ef, 0x131032e5, 0x969e014c,
	  0x3bc0468c, 0xbe4e7525, 0x3530572f, 0xb0be6486,
	  0x262065ca, 0xa3ae5663, 0x28d07469, 0xad5e47c0 },
	{ 0x00000000, 0x77808d18, 0xef011a30, 0x98819728,
	  0xdbee4291, 0xac6ecf89, 0x34ef58a1, 0x436fd5b9,
	  0xb230f3d3, 0xc5b07ecb, 0x5d31e9e3, 0x2ab164fb,
	  0x69deb142, 0x1e5e3c5a, 0x86dfab72, 0xf15f266a },
	{ 0x00000000, 0x618d9157, 0xc31b22ae, 0xa296b3f9,
	  0x83da33ad, 0xe257a2fa, 0x40c11103, 0x214c8054,
	  0x025811ab, 0x63d580fc, 0xc1433305, 0xa0cea252,
	  0x81822206, 0xe00fb351, 0x429900a8, 0x231491ff },
	{ 0x00000000, 0x04b02356, 0x096046ac, 0x0dd065fa,
	  0x12c08d58, 0x1670ae0e, 0x1ba0cbf4, 0x1f10e8a2,
	  0x25811ab0, 0x213139e6, 0x2ce15c1c, 0x28517f4a,
	  0x374197e8, 0x33f1b4be, 0x3e21d144, 0x3a91f212 },
	{ 0x00000000, 0x4b023560, 0x96046ac0, 0xdd065fa0,
	  0x29e4a371, 0x62e69611, 0xbfe0c9b1, 0xf4e2fcd1,
	  0x53c946e2, 0x18cb7382, 0xc5cd2c22, 0x8ecf1942,
	  0x7a2de593, 0x312fd0f3, 0xec298f53, 0xa72bba33 },
	{ 0x00000000, 0xa7928dc4, 0x4ac96d79, 0xed5be0bd,
	  0x9592daf2, 0x32005736, 0xdf5bb78b, 0x78c93a4f,
	  0x2ec9c315, 0x895b4ed1, 0x6400ae6c, 0xc39223a8,
	  0xbb5b19e7, 0x1cc99423, 0xf192749e, 0x5600f95a },
	{ 0x00000000, 0x5d93862a, 0xbb270c54, 0xe6b48a7e,
	  0x73a26e59, 0x2e31e873, 0xc885620d, 0x9516e427,
	  0xe744dcb2, 0xbad75a98, 0x5c63d0e6, 0x01f056cc,
	  0x94e6b2eb, 0xc97534c1, 0x2fc1bebf, 0x72523895 },
};

static const u32 kw_crc_short[8][16] = {
	{ 0x00000000, 0x6992cea2, 0xd3259d44, 0xbab753e6,
	  0xa3a74c79, 0xca3582db, 0x7082d13d, 0x19101f9f,
	  0x42a2ee03, 0x2b3020a1, 0x91877347, 0xf815bde5,
	  0xe105a27a, 0x88976cd8, 0x32203f3e, 0x5bb2f19c },
	{ 0x00000000, 0x8545dc06, 0x0f67cefd, 0x8a2212fb,
	  0x1ecf9dfa, 0x9b8a41fc, 0x11a85307, 0x94ed8f01,
	  0x3d9f3bf4, 0xb8dae7f2, 0x32f8f509, 0xb7bd290f,
	  0x2350a60e, 0xa6157a08, 0x2c3768f3, 0xa972b4f5 },
	{ 0x00000000, 0x7b3e77e8, 0xf67cefd0, 0x8d429838,
	  0xe915a951, 0x922bdeb9, 0x1f694681, 0x64573169,
	  0xd7c72453, 0xacf953bb, 0x21bbcb83, 0x5a85bc6b,
	  0x3ed28d02, 0x45ecfaea, 0xc8ae62d2, 0xb390153a },
	{ 0x00000000, 0xaa623e57, 0x51280a5f, 0xfb4a3408,
	  0xa25014be, 0x08322ae9, 0xf3781ee1, 0x591a20b6,
	  0x414c5f8d, 0xeb2e61da, 0x106455d2, 0xba066b85,
	  0xe31c4b33, 0x497e7564, 0xb234416c, 0x18567f3b },
	{ 0x00000000, 0x8298bf1a, 0x00dd08c5, 0x8245b7df,
	  0x01ba118a, 0x8322ae90, 0x0167194f, 0x83ffa655,
	  0x03742314, 0x81ec9c0e, 0x03a92bd1, 0x813194cb,
	  0x02ce329e, 0x80568d84, 0x02133a5b, 0x808b8541 },
	{ 0x00000000, 0x06e84628, 0x0dd08c50, 0x0b38ca78,
	  0x1ba118a0, 0x1d495e88, 0x167194f0, 0x1099d2d8,
	  0x37423140, 0x31aa7768, 0x3a92bd10, 0x3c7afb38,
	  0x2ce329e0, 0x2a0b6fc8, 0x2133a5b0, 0x27dbe398 },
	{ 0x00000000, 0x6e846280, 0xdd08c500, 0xb38ca780,
	  0xbffdfcf1, 0xd1799e71, 0x62f539f1, 0x0c715b71,
	  0x7a178f13, 0x1493ed93, 0xa71f4a13, 0xc99b2893,
	  0xc5ea73e2, 0xab6e1162, 0x18e2b6e2, 0x7666d462 },
	{ 0x00000000, 0xf42f1e26, 0xedb24abd, 0x199d549b,
	  0xde88e38b, 0x2aa7fdad, 0x333aa936, 0xc715b710,
	  0xb8fdb1e7, 0x4cd2afc1, 0x554ffb5a, 0xa160e57c,
	  0x6675526c, 0x925a4c4a, 0x8bc718d1, 0x7fe806f7 },
};

static __always_inline u32 kw_crc_append_zeros(u64 crc, const u32 table[8][16])
{
	u32 sum = 0, i;

#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		sum ^= table[i][crc >> 4 * i & 15];
	return sum;
}

/*
 * Single steps. The bytes are hidden from the compiler once they are read: it
 * might read memory again.
 */
static __always_inline u64 kw_crc_step8(u64 crc, u8 *dst, const u8 *src,
					const bool copy)
{
	u64 bytes;

	memcpy(&bytes, src, sizeof(bytes));
	__asm__("" : "+r" (bytes));
	if (copy)
		memcpy(dst, &bytes, sizeof(bytes));
	__asm__(KW_CRC_INSN8 : "+r" (crc) : "r" (bytes));
	return crc;
}

static __always_inline u32 kw_crc_step4(u32 crc, u8 *dst, const u8 *src,
					const bool copy)
{
	u32 bytes;

	memcpy(&bytes, src, sizeof(bytes));
	__asm__("" : "+r" (bytes));
	if (copy)
		memcpy(dst, &bytes, sizeof(bytes));
	__asm__(KW_CRC_INSN4 : "+r" (crc) : "r" (bytes));
	return crc;
}

static __always_inline u32 kw_crc_step2(u32 crc, u8 *dst, const u8 *src,
					const bool copy)
{
	u16 bytes;

	memcpy(&bytes, src, sizeof(bytes));
	__asm__("" : "+r" (bytes));
	if (copy)
		memcpy(dst, &bytes, sizeof(bytes));
	__asm__(KW_CRC_INSN2 : "+r" (crc) : "r" (bytes));
	return crc;
}

static __always_inline u32 kw_crc_step1(u32 crc, u8 *dst, const u8 *src,
					const bool copy)
{
	u8 bytes;

	memcpy(&bytes, src, sizeof(bytes));
	__asm__("" : "+r" (bytes));
	if (copy)
		memcpy(dst, &bytes, sizeof(bytes));
	__asm__(KW_CRC_INSN1 : "+r" (crc) : "r" (bytes));
	return crc;
}

#ifdef KW_CRC_X86

/* Repeats what follows, up to ".endr", for eight steps: 64 bytes of a block. */
#define KW_CRC_STEPS	".irp at, 0, 8, 16, 24, 32, 40, 48, 56\n\t"

/*
 * Three blocks, in assembly because the compiler spills and moves registers.
 * The bytes of a copy are in a register in between: the CRC is that of what was
 * written, even if the source changes meanwhile.
 */
static __always_inline u64 kw_crc_blocks(u64 a, u8 *dst, const u8 *src,
					 const u32 len, const u32 table[8][16],
					 const bool copy)
{
	const u8 *end = src + len;
	u64 b = 0, c = 0, bytes;

	for (; src != end; src += 64, dst += 64) {
		if (copy)
			__asm__ __volatile__(KW_CRC_STEPS
				"movq \\at(%[src]), %[bytes]\n\t"
				"movq %[bytes], \\at(%[dst])\n\t"
				"crc32q %[bytes], %[a]\n\t"
				"movq \\at+%c[len](%[src]), %[bytes]\n\t"
				"movq %[bytes], \\at+%c[len](%[dst])\n\t"
				"crc32q %[bytes], %[b]\n\t"
				"movq \\at+2*%c[len](%[src]), %[bytes]\n\t"
				"movq %[bytes], \\at+2*%c[len](%[dst])\n\t"
				"crc32q %[bytes], %[c]\n\t"
				".endr"
				: [a] "+r" (a), [b] "+r" (b), [c] "+r" (c),
				  [bytes] "=&r" (bytes)
				: [src] "r" (src), [dst] "r" (dst),
				  [len] "i" (len)
				: "memory");
		else
			__asm__ __volatile__(KW_CRC_STEPS
				"crc32q \\at(%[src]), %[a]\n\t"
				"crc32q \\at+%c[len](%[src]), %[b]\n\t"
				"crc32q \\at+2*%c[len](%[src]), %[c]\n\t"
				".endr"
				: [a] "+r" (a), [b] "+r" (b), [c] "+r" (c)
				: [src] "r" (src), [len] "i" (len)
				: "memory");
	}
	b ^= kw_crc_append_zeros(a, table);
	return c ^ kw_crc_append_zeros(b, table);
}

#else /* !KW_CRC_X86 */

/* Three blocks. With 31 registers the compiler has enough for all of it. */
static __always_inline u64 kw_crc_blocks(u64 a, u8 *dst, const u8 *src,
					 const u32 len, const u32 table[8][16],
					 const bool copy)
{
	u64 b = 0, c = 0;
	u32 at;

#pragma GCC unroll 8
	for (at = 0; at < len; at += 8) {
		a = kw_crc_step8(a, dst + at, src + at, copy);
		b = kw_crc_step8(b, dst + len + at, src + len + at, copy);
		c = kw_crc_step8(c, dst + 2 * len + at, src + 2 * len + at,
				 copy);
	}
	b ^= kw_crc_append_zeros(a, table);
	return c ^ kw_crc_append_zeros(b, table);
}

#endif /* !KW_CRC_X86 */

/* Compiled for each of the two uses. */
static __always_inline u32 kw_crc_insn(u64 crc, u8 *dst, const u8 *src,
				       size_t n, const bool copy)
{
	u32 sum, i;

	for (; n >= 3 * KW_CRC_LONG; n -= 3 * KW_CRC_LONG) {
		crc = kw_crc_blocks(crc, dst, src, KW_CRC_LONG, kw_crc_long,
				    copy);
		dst += 3 * KW_CRC_LONG;
		src += 3 * KW_CRC_LONG;
	}
	for (; n >= 3 * KW_CRC_SHORT; n -= 3 * KW_CRC_SHORT) {
		crc = kw_crc_blocks(crc, dst, src, KW_CRC_SHORT, kw_crc_short,
				    copy);
		dst += 3 * KW_CRC_SHORT;
		src += 3 * KW_CRC_SHORT;
	}
	for (; n >= 32; n -= 32, src += 32, dst += 32) {
#pragma GCC unroll 4
		for (i = 0; i < 32; i += 8)
			crc = kw_crc_step8(crc, dst + i, src + i, copy);
	}
	for (; n >= 8; n -= 8, src += 8, dst += 8)
		crc = kw_crc_step8(crc, dst, src, copy);
	sum = (u32)crc;
	if (n & 4) {
		sum = kw_crc_step4(sum, dst, src, copy);
		src += 4;
		dst += 4;
	}
	if (n & 2) {
		sum = kw_crc_step2(sum, dst, src, copy);
		src += 2;
		dst += 2;
	}
	if (n & 1)
		sum = kw_crc_step1(sum, dst, src, copy);
	return sum;
}

#endif /* KW_CRC_INSN */

#ifndef __KERNEL__
/**
 * kw_crc32c_plain() - kw_crc32c() of hosts without the instruction
 * @crc: see there
 * @p: see there
 * @n: see there
 *
 * Small rather than fast.
 *
 * Context: any.
 * Return: see there.
 */
u32 kw_crc32c_plain(u32 crc, const void *p, size_t n)
{
	const u8 *b = (const u8 *)p;
	u32 i;

	while (n--) {
		crc ^= *b++;
		for (i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

#define crc32c kw_crc32c_plain
#endif

/**
 * kw_crc32c() - continue a CRC32C (Castagnoli)
 * @crc: KW_CRC_SEED, or what an earlier call returned
 * @p: bytes
 * @n: how many
 *
 * Context: any.
 * Return: the CRC so far, before the final inversion.
 */
__hot u32 kw_crc32c(u32 crc, const void *p, size_t n)
{
#ifdef KW_CRC_INSN
	if (kw_crc_has_insn())
		return kw_crc_insn(crc, (u8 *)p, (const u8 *)p, n, false);
#endif
	return crc32c(crc, p, n);
}

/**
 * kw_memcpy_crc32c() - copy bytes and continue a CRC32C over them
 * @crc: KW_CRC_SEED, or what an earlier call returned
 * @dst: where to
 * @src: bytes, which may change meanwhile: where they are read once, with the
 *	instruction, the CRC is that of what is at @dst; elsewhere it is computed
 *	of @dst
 * @n: how many
 *
 * Context: any.
 * Return: the CRC so far, before the final inversion.
 */
__hot u32 kw_memcpy_crc32c(u32 crc, void *dst, const void *src, size_t n)
{
#ifdef KW_CRC_INSN
	if (kw_crc_has_insn())
		return kw_crc_insn(crc, (u8 *)dst, (const u8 *)src, n, true);
#endif
	memcpy(dst, src, n);
	return crc32c(crc, dst, n);
}
