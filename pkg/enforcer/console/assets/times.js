// Times in the reader's zone. The pages have them in UTC.

const two = (n) => String(n).padStart(2, "0");

/** clock writes an instant: its time, and its date when that is not today. */
export function clock(text, now = new Date()) {
  const at = new Date(text);
  if (isNaN(at)) return text;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const today = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  return day === today ? time : `${day} ${time}`;
}

/** span writes seconds by their two largest units, as the server does. */
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86400)}d ${two(Math.floor((s % 86400) / 3600))}h`;
}

/** local rewrites the times below an element. */
export function local(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.textContent = clock(time.dateTime);
    time.title = time.dateTime;
  }
}

local(document);
for (const zone of document.querySelectorAll(".zone")) {
  zone.textContent = ` · times are local (${Intl.DateTimeFormat().resolvedOptions().timeZone || "this machine's zone"})`;
}
