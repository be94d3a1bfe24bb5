#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""refused.py DEVICE: each verb that the ABI has a capability bit for is refused, with EOPNOTSUPP.

Prints TAP.
"""
from __future__ import annotations

import errno
import sys
from typing import Callable

import pyverbs.enums as e
from pyverbs.cq import CQ, CQEX, CqInitAttrEx
from pyverbs.device import Context
from pyverbs.mr import MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QPCap, QPEx, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr


REFUSED = "EOPNOTSUPP"


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except PyverbsRDMAError as error:
        # Python knows this one as ENOTSUP, too.
        if error.error_code == errno.EOPNOTSUPP:
            return REFUSED
        return errno.errorcode.get(error.error_code, str(error))
    return "it works"


def extended_qp(context: Context, pd: PD, cq: CQ, operation: int) -> QPEx:
    mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
    return QPEx(context, QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(), comp_mask=mask,
                                      pd=pd, send_ops_flags=operation))


def main() -> int:
    context = Context(name=sys.argv[1])
    pd = PD(context)
    cq = CQ(context, 8)
    stamps = CqInitAttrEx(cqe=8, wc_flags=e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
    calls: dict[str, Callable[[], object]] = {
        "ibv_create_srq": lambda: SRQ(pd, SrqInitAttr(SrqAttr(8))),
        "ibv_alloc_mw": lambda: MW(pd, e.IBV_MW_TYPE_1),
        "ibv_resize_cq": lambda: cq.resize(16),
        "ibv_create_cq_ex with time stamps": lambda: CQEX(context, stamps),
        "ibv_create_qp_ex with windows": lambda: extended_qp(context, pd, cq, e.IBV_QP_EX_WITH_BIND_MW),
        "ibv_create_qp_ex with immediates": lambda: extended_qp(context, pd, cq, e.IBV_QP_EX_WITH_SEND_WITH_IMM),
    }
    failed = 0
    for number, (name, call) in enumerate(calls.items(), 1):
        got = outcome(call)
        good = got == REFUSED
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}: {got}")
    print(f"1..{len(calls)}")
    return 1 if failed else 0


sys.exit(main())
