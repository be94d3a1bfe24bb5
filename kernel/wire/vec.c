// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Copying by AVX's registers of 32 bytes; CRC32C by SSE4.2's crc32 as in
 * crc.c, of three blocks side by side, whose sums a carry-less multiplication
 * joins. That needs no table for each length of a block, and a tenth of the
 * instructions: so the blocks are thirds of whatever there is.
 */
#include "wire/copy.h"
#include "wire/crc.h"
#include "wire/fold.h"
#include "wire/vec.h"

#ifdef __KERNEL__
#include <linux/cache.h>
#ifdef CONFIG_X86_64
#include "wire/cpu.h"
#define KW_VEC_X86
/* The compiler does not use these registers, and does not know of them. */
#define KW_VEC_CLOBBERS(...)	"memory"
#endif
#elif defined(__x86_64__)
#define KW_VEC_X86
#define KW_VEC_CLOBBERS(...)	"memory", __VA_ARGS__
#endif

#ifdef KW_VEC_X86

/* Blocks are multiples of so many bytes, and at most so many of these. */
#define KW_VEC_STEP	16
#define KW_VEC_STEPS	32

/*
 * Factors that append n zeros to what a CRC covers: x^(8 * n - 33) modulo the
 * polynomial, bits reversed. The CRC is multiplied by it. crc32 of the product,
 * with 0 as its start, is the result. [i] is for KW_VEC_STEP * (i + 1) zeros.
 */
static const u32 kw_vec_zeros[2 * KW_VEC_STEPS] = {
	0x493c7d27, 0xba4fc28e, 0xddc0152b, 0x9e4addf8,
	0x39d3b296, 0x0715ce53, 0x47db8317, 0x0d3b6092,
	0xc96cfdc0, 0x878a92a7, 0xdaece73e, 0xab7aff2a,
	0x2162d385, 0x83348832, 0x299847d5, 0xb9e02b86,
	0x18b33a4e, 0xb6dd949b, 0x78d9ccb7, 0xbac2fd7b,
	0xa60ce07b, 0xce7f39f4, 0x61d82e56, 0xd270f1a2,
	0xc619809d, 0x2b3cac5d, 0x65863b64, 0x1b03397f,
	0xebb883bd, 0xb3e32c28, 0x064f7f26, 0xdd7e3b0c,
	0xf285651c, 0x10746f3c, 0xc7a68855, 0x271d9844,
	0x8e766a0c, 0x93a5f730, 0x6cb08e5c, 0x6b749fb2,
	0x1393e203, 0xcec3662e, 0x96c515bb, 0xe6fc4e6a,
	0x8227bb8a, 0xb0cd4768, 0x39c7ff35, 0xd7a4825c,
	0x0ab3844b, 0x0167d312, 0xf6076544, 0x26f6a60a,
	0xa741c1bf, 0x98d8d9cb, 0x49c3cc9c, 0x68bce87a,
	0x57a3d037, 0x6956fc3b, 0x42d98888, 0x3771e98f,
	0xb42ae3d9, 0x2178513a, 0xe0ac139e, 0x170076fa,
};

/* Join the sums of three blocks, each of so many steps. */
static __always_inline u64 kw_vec_join(u64 a, u64 b, u64 c, size_t steps)
{
	const u32 *two = &kw_vec_zeros[2 * steps - 1];
	const u32 *one = &kw_vec_zeros[steps - 1];
	u64 shifted, zero = 0;

	__asm__("vmovq %[a], %%xmm0\n\t"
		"vmovd %[two], %%xmm1\n\t"
		"vpclmulqdq $0, %%xmm1, %%xmm0, %%xmm0\n\t"
		"vmovq %[b], %%xmm1\n\t"
		"vmovd %[one], %%xmm2\n\t"
		"vpclmulqdq $0, %%xmm2, %%xmm1, %%xmm1\n\t"
		"vpxor %%xmm1, %%xmm0, %%xmm0\n\t"
		"vmovq %%xmm0, %[shifted]\n\t"
		"crc32q %[shifted], %[zero]"
		: [shifted] "=&r" (shifted), [zero] "+r" (zero)
		: [a] "r" (a), [b] "r" (b), [two] "m" (*two), [one] "m" (*one)
		: KW_VEC_CLOBBERS("xmm0", "xmm1", "xmm2"));
	return c ^ zero;
}

#define KW_VEC_AT_64	"0, 8, 16, 24, 32, 40, 48, 56"
#define KW_VEC_AT_128	KW_VEC_AT_64 ", 64, 72, 80, 88, 96, 104, 112, 120"

/* Add 8 bytes of each of three blocks, at each offset that .irp lists. */
#define KW_VEC_CRC						\
	"crc32q \\at(%[p]), %[a]\n\t"				\
	"crc32q \\at(%[p],%[len]), %[b]\n\t"			\
	"crc32q \\at(%[p],%[len],2), %[c]\n\t"			\
	".endr"

static __always_inline u64 kw_vec_blocks(u64 a, const u8 *p, size_t steps)
{
	const size_t len = steps * KW_VEC_STEP;
	size_t left = steps;
	u64 b = 0, c = 0;

	for (; left >= 8; left -= 8, p += 128)
		__asm__ __volatile__(".irp at, " KW_VEC_AT_128 "\n\t" KW_VEC_CRC
			: [a] "+r" (a), [b] "+r" (b), [c] "+r" (c)
			: [p] "r" (p), [len] "r" (len)
			: "memory");
	if (left >= 4) {
		__asm__ __volatile__(".irp at, " KW_VEC_AT_64 "\n\t" KW_VEC_CRC
			: [a] "+r" (a), [b] "+r" (b), [c] "+r" (c)
			: [p] "r" (p), [len] "r" (len)
			: "memory");
		left -= 4;
		p += 64;
	}
	for (; left; left--, p += 16)
		__asm__ __volatile__(".irp at, 0, 8\n\t" KW_VEC_CRC
			: [a] "+r" (a), [b] "+r" (b), [c] "+r" (c)
			: [p] "r" (p), [len] "r" (len)
			: "memory");
	return kw_vec_join(a, b, c, steps);
}

static __always_inline u32 kw_vec_crc_x86(u64 crc, const u8 *p, size_t n)
{
	u32 sum;

	while (n >= 3 * KW_VEC_STEP) {
		size_t steps = n / (3 * KW_VEC_STEP);

		if (steps > KW_VEC_STEPS)
			steps = KW_VEC_STEPS;
		crc = kw_vec_blocks(crc, p, steps);
		p += 3 * KW_VEC_STEP * steps;
		n -= 3 * KW_VEC_STEP * steps;
	}
	for (; n >= 8; n -= 8, p += 8)
		__asm__("crc32q %1, %0"
			: "+r" (crc) : "m" (*(const u64 *)p));
	sum = (u32)crc;
	if (n >= 4) {
		__asm__("crc32l %1, %0" : "+r" (sum) : "m" (*(const u32 *)p));
		n -= 4;
		p += 4;
	}
	/* What is summed of an FPDU is a multiple of four. */
	return n ? kw_crc32c(sum, p, n) : sum;
}

/* Copy 128 bytes at each of the offsets. */
#define KW_VEC_COPY(at)						\
	".irp at, " at "\n\t"					\
	"vmovdqu \\at(%[src]), %%ymm0\n\t"			\
	"vmovdqu \\at+32(%[src]), %%ymm1\n\t"			\
	"vmovdqu \\at+64(%[src]), %%ymm2\n\t"			\
	"vmovdqu \\at+96(%[src]), %%ymm3\n\t"			\
	"vmovdqu %%ymm0, \\at(%[dst])\n\t"			\
	"vmovdqu %%ymm1, \\at+32(%[dst])\n\t"			\
	"vmovdqu %%ymm2, \\at+64(%[dst])\n\t"			\
	"vmovdqu %%ymm3, \\at+96(%[dst])\n\t"			\
	".endr"

static __always_inline void kw_vec_copy_x86(u8 *dst, const u8 *src, size_t n)
{
	for (; n >= 256; n -= 256, dst += 256, src += 256)
		__asm__ __volatile__(KW_VEC_COPY("0, 128")
			: : [src] "r" (src), [dst] "r" (dst)
			: KW_VEC_CLOBBERS("xmm0", "xmm1", "xmm2", "xmm3"));
	if (n >= 128) {
		__asm__ __volatile__(KW_VEC_COPY("0")
			: : [src] "r" (src), [dst] "r" (dst)
			: KW_VEC_CLOBBERS("xmm0", "xmm1", "xmm2", "xmm3"));
		n -= 128;
		dst += 128;
		src += 128;
	}
	for (; n >= 32; n -= 32, dst += 32, src += 32)
		__asm__ __volatile__("vmovdqu (%[src]), %%ymm0\n\t"
			"vmovdqu %%ymm0, (%[dst])"
			: : [src] "r" (src), [dst] "r" (dst)
			: KW_VEC_CLOBBERS("xmm0"));
	/* Code without AVX that runs next would wait for the upper halves. */
	__asm__ __volatile__("vzeroupper"
		: : : KW_VEC_CLOBBERS("xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
				      "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
				      "xmm10", "xmm11", "xmm12", "xmm13",
				      "xmm14", "xmm15"));
	if (n >= 16) {
		__asm__ __volatile__("vmovdqu (%[src]), %%xmm0\n\t"
			"vmovdqu %%xmm0, (%[dst])"
			: : [src] "r" (src), [dst] "r" (dst)
			: KW_VEC_CLOBBERS("xmm0"));
		n -= 16;
		dst += 16;
		src += 16;
	}
	if (n)
		kw_memcpy(dst, src, n);
}

#endif /* KW_VEC_X86 */

bool kw_vec_folds __ro_after_init;

/**
 * kw_vec_has() - whether this CPU has what the other functions need
 *
 * Context: any.
 * Return: false if they must not be called.
 */
bool kw_vec_has(void)
{
#ifndef KW_VEC_X86
	return false;
#elif defined(__KERNEL__)
	return kw_cpu_has(X86_FEATURE_AVX) &&
	       kw_cpu_has(X86_FEATURE_PCLMULQDQ) &&
	       kw_cpu_has(X86_FEATURE_XMM4_2);
#else
	return __builtin_cpu_supports("avx") &&
	       __builtin_cpu_supports("pclmul") &&
	       __builtin_cpu_supports("sse4.2");
#endif
}

/**
 * kw_memcpy_vec() - kw_memcpy() by vector registers
 * @dst: where to; does not overlap @src
 * @src: where from
 * @n: how many bytes
 *
 * Context: kw_vec_has() is true, and the registers may be written to.
 */
void kw_memcpy_vec(void *dst, const void *src, size_t n)
{
#ifdef KW_VEC_X86
	kw_vec_copy_x86((u8 *)dst, (const u8 *)src, n);
#else
	kw_memcpy(dst, src, n);
#endif
}

/**
 * kw_crc32c_vec() - kw_crc32c() by vector registers
 * @crc: KW_CRC_SEED, or what an earlier call returned
 * @p: bytes
 * @n: how many
 *
 * Context: as kw_memcpy_vec().
 * Return: the CRC so far, before the final inversion.
 */
u32 kw_crc32c_vec(u32 crc, const void *p, size_t n)
{
	if (kw_vec_folds && n >= KW_FOLD_MIN)
		return kw_crc32c_fold(crc, p, n);
#ifdef KW_VEC_X86
	return kw_vec_crc_x86(crc, (const u8 *)p, n);
#else
	return kw_crc32c(crc, p, n);
#endif
}

/**
 * kw_memcpy_crc32c_vec() - kw_memcpy_crc32c() by vector registers
 * @crc: KW_CRC_SEED, or what an earlier call returned
 * @dst: where to; does not overlap @src
 * @src: bytes, which may change meanwhile: the CRC is that of what is at @dst
 * @n: how many
 *
 * Context: as kw_memcpy_vec().
 * Return: the CRC so far, before the final inversion.
 */
u32 kw_memcpy_crc32c_vec(u32 crc, void *dst, const void *src, size_t n)
{
	if (kw_vec_folds && n >= KW_FOLD_MIN)
		return kw_memcpy_crc32c_fold(crc, dst, src, n);
	kw_memcpy_vec(dst, src, n);
	return kw_crc32c_vec(crc, dst, n);
}
