// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Prints the rate of this machine's time stamp counter in kHz. An emulated CPU passes the
// counter on. A guest kernel that measures the rate itself, while its virtual CPUs wait for a core,
// may be wrong by a factor of ten. Its seconds, and all time-outs, are then as wrong.
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct reading {
	uint64_t ticks;
	int64_t ns;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Of many tries, the one that was least disturbed between its two clocks. */
static struct reading read_both(void)
{
	struct reading best = {0, 0};
	int64_t width = INT64_MAX;

	for (int i = 0; i < 200; i++) {
		int64_t before = now_ns();
		uint64_t ticks = __rdtsc();
		int64_t after = now_ns();

		if (after - before < width) {
			width = after - before;
			best.ticks = ticks;
			best.ns = before + width / 2;
		}
	}
	return best;
}

int main(void)
{
	struct timespec pause = {0, 200000000};
	struct reading a = read_both(), b;

	nanosleep(&pause, NULL);
	b = read_both();
	printf("%.0f\n", (double)(b.ticks - a.ticks) * 1e6 / (double)(b.ns - a.ns));
	return 0;
}
