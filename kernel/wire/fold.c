// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * CRC32C by folding. A CRC is the remainder of a polynomial, and stays the same
 * if 128 bits of it are replaced by what they leave n bytes further on: by
 * their product with x^(8 * n) modulo CRC32C's polynomial. Each half is
 * multiplied by a factor of its own, and both products are added to the 128
 * bits there. Four registers of four times 128 bits each go through the bytes
 * side by side, and are then folded into one, that one into 128 bits. crc32 has
 * the remainder of these, and adds what is left of the bytes.
 */
#include "wire/crc.h"
#include "wire/fold.h"

#ifdef __KERNEL__
#ifdef CONFIG_X86_64
#include "wire/cpu.h"
#define KW_FOLD_X86
/* The compiler does not use these registers, and does not know of them. */
#define KW_FOLD_CLOBBERS	"memory"
#endif
#elif defined(__x86_64__)
#define KW_FOLD_X86
#define KW_FOLD_CLOBBERS	"memory", "xmm0", "xmm1", "xmm2", "xmm3",	\
				"xmm4", "xmm5", "xmm6", "xmm7",		\
				"xmm8", "xmm9", "xmm10", "xmm11",	\
				"xmm12", "xmm13", "xmm14", "xmm15"
#endif

#ifdef KW_FOLD_X86

/*
 * For n of 256, 192, 128, 64, 32 and 16 bytes: x^(8 * n + 63), by which the
 * first half of 128 bits is multiplied, and x^(8 * n - 1) for the second, both
 * modulo the polynomial. Bits are reversed, bit 63 is x^0, and the product of
 * such is one place short, hence the odd exponents. tests/unit/vec_test.cc
 * would notice a wrong one.
 */
static const u64 kw_fold_by[6][2] = {
	{ 0xe9a5d8be00000000, 0x1426a81500000000 },
	{ 0x7ccbbbf200000000, 0x31c9460800000000 },
	{ 0x6577b24500000000, 0x7417153f00000000 },
	{ 0x1c19243b00000000, 0x75bba45b00000000 },
	{ 0x33ccbbbc00000000, 0xa2158b3400000000 },
	{ 0x3743f7bd00000000, 0x3171d43000000000 },
};

/*
 * For the assembler. Registers 0 to 3 fold, 4 has the factors of a row, 5 and 6
 * have products, 7 has bytes. Each byte is read once, and then written if it is
 * copied.
 */
#define KW_FOLD_MACROS							\
	".macro kw_fold_load move at reg\n\t"				\
	"\\move \\at(%[src]), \\reg\n\t"				\
	".if %c[copy]\n\t"						\
	"\\move \\reg, \\at(%[dst])\n\t"				\
	".endif\n\t"							\
	".endm\n\t"							\
	".macro kw_fold_moved len\n\t"					\
	"lea \\len(%[src]), %[src]\n\t"				\
	".if %c[copy]\n\t"						\
	"lea \\len(%[dst]), %[dst]\n\t"				\
	".endif\n\t"							\
	".endm\n\t"							\
	".macro kw_fold_row row\n\t"					\
	"vbroadcasti32x4 16*\\row(%[by]), %%zmm4\n\t"			\
	".endm\n\t"							\
	".macro kw_fold_next at acc\n\t"				\
	"kw_fold_load vmovdqu64, \\at, %%zmm7\n\t"			\
	"vpclmulqdq $0x00, %%zmm4, \\acc, %%zmm5\n\t"			\
	"vpclmulqdq $0x11, %%zmm4, \\acc, \\acc\n\t"			\
	"vpternlogq $0x96, %%zmm7, %%zmm5, \\acc\n\t"			\
	".endm\n\t"							\
	".macro kw_fold_into3 acc\n\t"					\
	"vpclmulqdq $0x00, %%zmm4, \\acc, %%zmm5\n\t"			\
	"vpclmulqdq $0x11, %%zmm4, \\acc, %%zmm6\n\t"			\
	"vpternlogq $0x96, %%zmm5, %%zmm6, %%zmm3\n\t"			\
	".endm\n\t"							\
	".macro kw_fold_3into7 s\n\t"					\
	"vpclmulqdq $0x00, %%\\s\\()mm4, %%\\s\\()mm3, %%\\s\\()mm5\n\t"	\
	"vpclmulqdq $0x11, %%\\s\\()mm4, %%\\s\\()mm3, %%\\s\\()mm3\n\t"	\
	"vpxor %%\\s\\()mm7, %%\\s\\()mm5, %%\\s\\()mm5\n\t"		\
	"vpxor %%\\s\\()mm5, %%\\s\\()mm3, %%\\s\\()mm3\n\t"		\
	".endm\n\t"

#define KW_FOLD_PURGE							\
	".irp name, load, moved, row, next, into3, 3into7\n\t"		\
	".purgem kw_fold_\\name\n\t"					\
	".endr"

/*
 * All of it is one statement, as the compiler does not know what stays in the
 * registers between two. Sets @src, @dst and @n to what is left, and returns
 * the CRC of what is before that.
 */
static __always_inline u32 kw_fold(u32 crc, u8 **dst, const u8 **src, size_t *n,
				   const bool copy)
{
	u64 lo, hi, sum = 0;

	__asm__ __volatile__(KW_FOLD_MACROS
		"kw_fold_load vmovdqu64, 0, %%zmm0\n\t"
		"kw_fold_load vmovdqu64, 64, %%zmm1\n\t"
		"kw_fold_load vmovdqu64, 128, %%zmm2\n\t"
		"kw_fold_load vmovdqu64, 192, %%zmm3\n\t"
		"vmovd %[crc], %%xmm5\n\t"
		"vpxorq %%zmm5, %%zmm0, %%zmm0\n\t"
		"kw_fold_row 0\n\t"
		"kw_fold_moved 256\n\t"
		"sub $256, %[n]\n\t"
		"jmp 2f\n"
		"1:\t"
		"kw_fold_next 0, %%zmm0\n\t"
		"kw_fold_next 64, %%zmm1\n\t"
		"kw_fold_next 128, %%zmm2\n\t"
		"kw_fold_next 192, %%zmm3\n\t"
		"kw_fold_moved 256\n"
		"2:\t"
		"sub $256, %[n]\n\t"
		"jae 1b\n\t"
		"add $256, %[n]\n\t"
		"kw_fold_row 1\n\t"
		"kw_fold_into3 %%zmm0\n\t"
		"kw_fold_row 2\n\t"
		"kw_fold_into3 %%zmm1\n\t"
		"kw_fold_row 3\n\t"
		"kw_fold_into3 %%zmm2\n\t"
		"jmp 4f\n"
		"3:\t"
		"kw_fold_next 0, %%zmm3\n\t"
		"kw_fold_moved 64\n"
		"4:\t"
		"sub $64, %[n]\n\t"
		"jae 3b\n\t"
		"kw_fold_row 4\n\t"
		"vextracti64x4 $1, %%zmm3, %%ymm7\n\t"
		"kw_fold_3into7 y\n\t"
		"add $32, %[n]\n\t"
		"js 5f\n\t"
		"kw_fold_load vmovdqu, 0, %%ymm7\n\t"
		"kw_fold_3into7 y\n\t"
		"kw_fold_moved 32\n\t"
		"sub $32, %[n]\n"
		"5:\t"
		"kw_fold_row 5\n\t"
		"vextracti128 $1, %%ymm3, %%xmm7\n\t"
		"kw_fold_3into7 x\n\t"
		"add $16, %[n]\n\t"
		"js 6f\n\t"
		"kw_fold_load vmovdqu, 0, %%xmm7\n\t"
		"kw_fold_3into7 x\n\t"
		"kw_fold_moved 16\n\t"
		"sub $16, %[n]\n"
		"6:\t"
		"add $16, %[n]\n\t"
		"vmovq %%xmm3, %[lo]\n\t"
		"vpextrq $1, %%xmm3, %[hi]\n\t"
		"vzeroupper\n\t"
		KW_FOLD_PURGE
		: [src] "+&r" (*src), [dst] "+&r" (*dst), [n] "+&r" (*n),
		  [lo] "=r" (lo), [hi] "=r" (hi)
		: [crc] "r" (crc), [by] "r" (kw_fold_by), [copy] "i" (copy)
		: KW_FOLD_CLOBBERS);
	__asm__("crc32q %[lo], %[sum]\n\t"
		"crc32q %[hi], %[sum]"
		: [sum] "+&r" (sum) : [lo] "r" (lo), [hi] "r" (hi));
	return (u32)sum;
}

#endif /* KW_FOLD_X86 */

/**
 * kw_fold_has() - whether this CPU has what the other functions need
 *
 * Context: any.
 * Return: false if they must not be called.
 */
bool kw_fold_has(void)
{
#ifndef KW_FOLD_X86
	return false;
#elif defined(__KERNEL__)
	return kw_cpu_has(X86_FEATURE_AVX512F) &&
	       kw_cpu_has(X86_FEATURE_AVX2) &&
	       kw_cpu_has(X86_FEATURE_VPCLMULQDQ) &&
	       kw_cpu_has(X86_FEATURE_PCLMULQDQ) &&
	       kw_cpu_has(X86_FEATURE_XMM4_2);
#else
	return __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx2") &&
	       __builtin_cpu_supports("vpclmulqdq") &&
	       __builtin_cpu_supports("pclmul") &&
	       __builtin_cpu_supports("sse4.2");
#endif
}

/**
 * kw_crc32c_fold() - kw_crc32c() by folding
 * @crc: KW_CRC_SEED, or what an earlier call returned
 * @p: bytes
 * @n: how many, KW_FOLD_MIN at least
 *
 * Context: kw_fold_has() is true, and vector registers may be written to.
 * Return: the CRC so far, before the final inversion.
 */
u32 kw_crc32c_fold(u32 crc, const void *p, size_t n)
{
#ifdef KW_FOLD_X86
	const u8 *src = (const u8 *)p;
	u8 *dst = NULL;

	crc = kw_fold(crc, &dst, &src, &n, false);
	p = src;
#endif
	return kw_crc32c(crc, p, n);
}

/**
 * kw_memcpy_crc32c_fold() - kw_memcpy_crc32c() by folding
 * @crc: KW_CRC_SEED, or what an earlier call returned
 * @dst: where to
 * @src: bytes, which may change meanwhile: the CRC is that of what is at @dst
 * @n: how many, KW_FOLD_MIN at least
 *
 * Context: as kw_crc32c_fold().
 * Return: the CRC so far, before the final inversion.
 */
u32 kw_memcpy_crc32c_fold(u32 crc, void *dst, const void *src, size_t n)
{
#ifdef KW_FOLD_X86
	const u8 *from = (const u8 *)src;
	u8 *to = (u8 *)dst;

	crc = kw_fold(crc, &to, &from, &n, true);
	src = from;
	dst = to;
#endif
	return kw_memcpy_crc32c(crc, dst, src, n);
}
