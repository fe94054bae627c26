"""beanstalkd's priorities, of which the smallest comes first, as tarry's, of which the highest does.

0 to 9              3
10 to 1,023         2    beanstalkd calls these and the ones above urgent
1,024 to 65,535     1    Pheanstalk's default is 1,024
65,536 and more     0    the default of greenstalk and beaneater is 65,536
"""

from __future__ import annotations

_BELOW = (10, 1024, 65_536)
LEAST_URGENT = 2


def priority_of(pri: int) -> int:
    """tarry's priority for one of beanstalkd's."""
    return sum(pri < least for least in _BELOW)
