// Numbers, durations and times as text. All functions are pure; the current time is an argument.

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const PRECISE = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const UNITS: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e4, "k"],
];

/** A count: exact below 10,000, with a unit above. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  for (const [least, unit] of UNITS) {
    if (size >= least) return PRECISE.format(value / (least === 1e4 ? 1e3 : least)) + unit;
  }
  return Number.isInteger(value) ? GROUPED.format(value) : PRECISE.format(value);
}

/** A count with all its digits. */
export function exact(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : GROUPED.format(value);
}

/** A share between 0 and 1 as a percentage. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1 %";
  return `${value >= 10 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} %`;
}

/** A duration in its two largest units, such as `3 min 20 s`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1000) return `${ms < 10 && !Number.isInteger(ms) ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toString()} s`;
  const seconds = Math.floor(ms / 1000);
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  const shown = parts.slice(first, first + 2).filter(([amount]) => amount > 0);
  return shown.map(([amount, unit]) => `${amount} ${unit}`).join(" ");
}

/** A moment relative to now, such as `5 s ago` or `in 3 min`. */
export function relative(time: string | null | undefined, now: number): string {
  const at = time ? Date.parse(time) : Number.NaN;
  if (Number.isNaN(at)) return "–";
  const distance = now - at;
  if (Math.abs(distance) < 1000) return "now";
  const text = duration(Math.floor(Math.abs(distance) / 1000) * 1000);
  return distance > 0 ? `${text} ago` : `in ${text}`;
}

/** A moment as local date and time, to the second. */
export function moment(time: string | null | undefined): string {
  const at = time ? new Date(time) : null;
  if (!at || Number.isNaN(at.getTime())) return "–";
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** An ISO 8601 period such as `PT1M` in words. */
export function period(iso: string | undefined): string {
  const match = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?$/.exec(iso ?? "");
  if (!match) return iso ?? "–";
  const [days, hours, minutes, seconds] = match.slice(1).map((part) => Number(part ?? 0));
  return duration(((((days ?? 0) * 24 + (hours ?? 0)) * 60 + (minutes ?? 0)) * 60 + (seconds ?? 0)) * 1000).replace(/^1 /, "");
}

/** A word of the API, such as `queue_paused`, as words. */
export function words(name: string | null | undefined): string {
  return (name ?? "").replaceAll("_", " ");
}

/** The beginning and the end of an id. Ids begin with a time, so only both together tell them apart. */
export function shortId(id: string): string {
  return id.length > 20 ? `${id.slice(0, 8)}…${id.slice(-6)}` : id;
}

/** Makes a singular or a plural, with the count in front. */
export function plural(amount: number, one: string, many = `${one}s`): string {
  return `${count(amount)} ${amount === 1 ? one : many}`;
}
