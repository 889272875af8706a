// How numbers, times and amounts are written.

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const calendar = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const counted = new Intl.NumberFormat("en");

export const count = (number) => counted.format(number ?? 0);
export const plural = (number, one, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;
export const percent = (share) =>
  share === undefined || share === null ? "" : `${Math.round(share * 100)} %`;

// The time of day, with the date where that is not today's.
export function timeOfDay(seconds) {
  if (!seconds) return "";
  const at = new Date(seconds * 1000);
  return (at.toDateString() === new Date().toDateString() ? clock : calendar).format(at);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(1)} ms`;
  return `${seconds.toFixed(2)} s`;
}

// As kubectl writes ages: the two largest units.
export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 120) return `${whole}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 10) return whole % 60 ? `${minutes}m${whole % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

const FACTORS = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

// A Kubernetes quantity as a number, good enough to compare two of them by eye.
export function quantity(text) {
  const parts = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]i?|)$/.exec(String(text ?? "0"));
  return parts ? Number(parts[1]) * (FACTORS[parts[2]] ?? 1) : NaN;
}

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
const BYTES = /^(memory|ephemeral-storage|hugepages-.*)$/;
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const rounded = (number) => (number < 100 ? short.format(number) : count(Math.round(number)));

// How much of a resource that is, for people: rounded, and bytes in the largest unit.
export function amount(resource, number) {
  if (!BYTES.test(resource)) return rounded(number);
  const unit = number ? Math.floor(Math.log2(Math.abs(number)) / 10) : 0;
  const at = Math.min(unit, BINARY.length - 1);
  return `${rounded(number / 2 ** (10 * at))}${BINARY[at]}`;
}

export function listed(mapping) {
  return Object.entries(mapping ?? {}).map(([name, value]) =>
    value === "" ? name : `${name}=${value}`,
  );
}
