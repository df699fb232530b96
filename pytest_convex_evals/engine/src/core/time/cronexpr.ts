/** Cron expressions of five fields, in UTC: lists, ranges, steps, names, `L`, `W` and `#`. */

import { UserError } from "../errors.js";

const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MINUTE_MS = 60_000;

type DayRule = (date: Date) => boolean;

export interface CronExpression {
  /** The first matching minute at or after this time, or null. */
  next(fromMs: number): number | null;
}

function fail(text: string): never {
  throw new UserError("InvalidCron", `Invalid cron expression '${text}'`);
}

function numberIn(text: string, low: number, high: number, names: readonly string[], base: number, whole: string): number {
  const named = names.indexOf(text.toUpperCase());
  const value = named >= 0 ? named + base : /^\d+$/.test(text) ? Number(text) : NaN;
  if (!(value >= low && value <= high)) fail(whole);
  return value;
}

function parseSet(field: string, low: number, high: number, names: readonly string[], base: number, whole: string): Set<number> {
  const values = new Set<number>();
  for (const part of field.split(",")) {
    const [range, stepText, extra] = part.split("/") as [string, string?, string?];
    if (extra !== undefined || range === "") fail(whole);
    const step = stepText === undefined ? 1 : /^\d+$/.test(stepText) ? Number(stepText) : 0;
    if (step < 1) fail(whole);
    let from: number;
    let to: number;
    if (range === "*" || range === "?") [from, to] = [low, high];
    else if (range.includes("-")) {
      const [a, b, c] = range.split("-") as [string, string, string?];
      if (c !== undefined) fail(whole);
      from = numberIn(a, low, high, names, base, whole);
      to = numberIn(b, low, high, names, base, whole);
    } else {
      from = numberIn(range, low, high, names, base, whole);
      to = stepText === undefined ? from : high;
    }
    if (from <= to) for (let value = from; value <= to; value += step) values.add(value);
    else {
      const span = high - low + 1;
      for (let value = from; value <= to + span; value += step) values.add(low + ((value - low) % span));
    }
  }
  return values;
}

function daysInMonth(date: Date): number {
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
}

function weekdayNear(date: Date, day: number): number {
  const last = daysInMonth(date);
  const target = Math.min(day, last);
  const weekday = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), target)).getUTCDay();
  if (weekday === 6) return target === 1 ? 3 : target - 1;
  if (weekday === 0) return target === last ? target - 2 : target + 1;
  return target;
}

function dayOfMonthRule(field: string, whole: string): DayRule {
  const rules = field.split(",").map((part): DayRule => {
    const upper = part.toUpperCase();
    if (upper === "L") return (date) => date.getUTCDate() === daysInMonth(date);
    if (upper === "LW" || upper === "WL") return (date) => date.getUTCDate() === weekdayNear(date, 31);
    const offset = /^L-(\d+)$/.exec(upper);
    if (offset !== null) return (date) => date.getUTCDate() === daysInMonth(date) - Number(offset[1]);
    const near = /^(\d+)W$/.exec(upper);
    if (near !== null) {
      const day = numberIn(near[1] as string, 1, 31, [], 0, whole);
      return (date) => day <= daysInMonth(date) && date.getUTCDate() === weekdayNear(date, day);
    }
    const days = parseSet(part, 1, 31, [], 0, whole);
    return (date) => days.has(date.getUTCDate());
  });
  return (date) => rules.some((rule) => rule(date));
}

function dayOfWeekRule(field: string, whole: string): DayRule {
  const rules = field.split(",").map((part): DayRule => {
    const upper = part.toUpperCase();
    const last = /^([0-6]|[A-Z]{3})L$/.exec(upper);
    if (last !== null) {
      const day = numberIn(last[1] as string, 0, 6, DAYS, 0, whole);
      return (date) => date.getUTCDay() === day && date.getUTCDate() > daysInMonth(date) - 7;
    }
    const nth = /^([0-6]|[A-Z]{3})#([1-5])$/.exec(upper);
    if (nth !== null) {
      const day = numberIn(nth[1] as string, 0, 6, DAYS, 0, whole);
      return (date) => date.getUTCDay() === day && Math.ceil(date.getUTCDate() / 7) === Number(nth[2]);
    }
    if (upper === "L") return (date) => date.getUTCDay() === 6;
    const days = parseSet(part, 0, 6, DAYS, 0, whole);
    return (date) => days.has(date.getUTCDay());
  });
  return (date) => rules.some((rule) => rule(date));
}

export function parseCronExpression(text: string): CronExpression {
  const fields = text.trim().split(/\s+/);
  if (fields.length !== 5) fail(text);
  const [minuteText, hourText, dayText, monthText, weekdayText] = fields as [string, string, string, string, string];
  const minutes = parseSet(minuteText, 0, 59, [], 0, text);
  const hours = parseSet(hourText, 0, 23, [], 0, text);
  const months = parseSet(monthText, 1, 12, MONTHS, 1, text);
  const anyDay = dayText === "*" || dayText === "?";
  const anyWeekday = weekdayText === "*" || weekdayText === "?";
  const dayRule = dayOfMonthRule(dayText === "?" ? "*" : dayText, text);
  const weekdayRule = dayOfWeekRule(weekdayText === "?" ? "*" : weekdayText, text);
  const dayMatches: DayRule = (date) =>
    anyDay ? weekdayRule(date) : anyWeekday ? dayRule(date) : dayRule(date) || weekdayRule(date);
  const next = (fromMs: number): number | null => {
    const start = Math.ceil(fromMs / MINUTE_MS) * MINUTE_MS;
    const date = new Date(start);
    const lastYear = date.getUTCFullYear() + 9;
    while (date.getUTCFullYear() <= lastYear) {
      if (!months.has(date.getUTCMonth() + 1)) {
        date.setUTCMonth(date.getUTCMonth() + 1, 1);
        date.setUTCHours(0, 0, 0, 0);
      } else if (!dayMatches(date)) {
        date.setUTCDate(date.getUTCDate() + 1);
        date.setUTCHours(0, 0, 0, 0);
      } else if (!hours.has(date.getUTCHours())) date.setUTCHours(date.getUTCHours() + 1, 0, 0, 0);
      else if (!minutes.has(date.getUTCMinutes())) date.setUTCMinutes(date.getUTCMinutes() + 1, 0, 0);
      else return date.getTime();
    }
    return null;
  };
  return { next };
}
