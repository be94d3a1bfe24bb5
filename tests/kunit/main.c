// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Loading this module runs the suites.
 */
#include <linux/module.h>

#include "link.h"

kunit_test_suites(&kt_wire_suite, &kt_stag_suite, &kt_window_suite,
		  &kt_segment_suite, &kt_receive_suite, &kt_msn_suite,
		  &kt_zcopy_suite, &kt_ack_suite, &kt_budget_suite,
		  &kt_ext_suite, &kt_close_suite, &kt_linger_suite,
		  &kt_queue_suite, &kt_predict_suite, &kt_teardown_suite, &kt_steps_suite);

MODULE_DESCRIPTION("KUnit suites of Kiwarp");
MODULE_LICENSE("Dual BSD/GPL");
