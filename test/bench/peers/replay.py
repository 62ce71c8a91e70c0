"""replay.py [--tuned] LOG HITS/SECONDS... prints whom fail2ban would ban, with a jail for each limit that reads the log.

It is fail2ban's own filter, date detector and count of failures, with its clock set to the time of each line, so that old
lines are judged as they would have been when they were written.
"""

import logging
import sys

from fail2ban.server.filter import FileFilter
from fail2ban.server.mytime import MyTime


class Jail:
    database = None

    def __init__(self, name):
        self.name = name
        self.banned = set()

    def putFailTicket(self, ticket):
        self.banned.add(str(ticket.getID()))


class Replay(FileFilter):
    def findFailure(self, line, date, noDate=False):
        MyTime.setTime(date)
        return super().findFailure(line, date, noDate)


def banned(log, tuned, hits, seconds):
    jail = Jail("limit")
    reader = Replay(jail, useDns="no")
    reader.active = True
    reader.checkFindTime = False
    if tuned:
        reader.setDatePattern(r"^\S+ \S+ \S+ \[(%d/%b/%Y:%H:%M:%S %z)\]")
        reader.addFailRegex(r"^<ADDR> ")
        reader.ignoreSelf = False
        reader.failManager.maxMatches = 0
    else:
        reader.setDatePattern(r"\[%d/%b/%Y:%H:%M:%S %z\]")
        reader.addFailRegex(r"^<HOST> ")
    reader.setMaxRetry(hits + 1)
    reader.setFindTime(seconds)
    reader.addLogPath(log, autoSeek=False)
    reader.getFailures(log)
    return jail.banned


logging.getLogger("fail2ban").setLevel(logging.CRITICAL)
arguments = [argument for argument in sys.argv[1:] if argument != "--tuned"]
everyone = set()
for limit in arguments[1:]:
    everyone |= banned(arguments[0], len(arguments) < len(sys.argv) - 1, *map(int, limit.split("/")))
print("\n".join(sorted(everyone)))
