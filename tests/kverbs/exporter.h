/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * How a test program asks /sys/kernel/debug/kiwarp_ktest/exporter for dma-bufs.
 */
#ifndef KT_EXPORTER_H
#define KT_EXPORTER_H

#include <linux/ioctl.h>

/* Returns the buffer's file; the argument is one of enum kt_export. */
#define KT_EXPORT		_IO('k', 1)
/* Returns how many mappings into the kernel's address space there are. */
#define KT_EXPORT_MAPPED	_IO('k', 2)
/* Returns how many buffers there are. */
#define KT_EXPORT_LEFT		_IO('k', 3)

/* Returns how often a buffer was mapped that was free to move, or being moved. */
#define KT_EXPORT_LOOSE		_IO('k', 4)

#define KT_EXPORT_PAGES		8

/**
 * enum kt_export - what the exporter of a buffer can do
 * @KT_EXPORT_USUAL: all that a region needs
 * @KT_EXPORT_READ_ONLY: the file may only be read
 * @KT_EXPORT_NO_VMAP: it has no vmap
 * @KT_EXPORT_IOMEM: its memory is a device's
 * @KT_EXPORT_MOVES: it moves what is attached, unless it is pinned, which takes
 *	a moment after pin has returned
 * @KT_EXPORT_NO_PIN: as that, but cannot pin
 * @KT_NR_EXPORTS: how many there are
 *
 * There is none whose vmap fails: of that the kernel's dma-buf core warns, and a
 * warning fails a run.
 */
enum kt_export {
	KT_EXPORT_USUAL,
	KT_EXPORT_READ_ONLY,
	KT_EXPORT_NO_VMAP,
	KT_EXPORT_IOMEM,
	KT_EXPORT_MOVES,
	KT_EXPORT_NO_PIN,
	KT_NR_EXPORTS,
};

#endif /* KT_EXPORTER_H */
