// A line chart over time, with a table as its alternative.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Line } from "../data/history";
import { count } from "../lib/format";

interface Props {
  title: string;
  /** The content of the chart in a sentence. */
  summary: string;
  times: number[];
  lines: Line[];
}

const HEIGHT = 260;
const COLOURS = 7;

/** The colour of a line, from the theme. */
function colour(index: number): string {
  return property(`--line-${(index % COLOURS) + 1}`);
}

function property(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function Chart({ title, summary, times, lines }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = useRef<uPlot.AlignedData>([[]]);
  data.current = [times, ...lines.map((line) => line.values)];
  const names = lines.map((line) => line.tenant).join("\n");

  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(names === "" ? [] : names.split("\n"), element.clientWidth), data.current, element);
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    const theme = window.matchMedia("(prefers-color-scheme: dark)");
    theme.addEventListener("change", draw);
    return () => {
      theme.removeEventListener("change", draw);
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names]);

  useEffect(() => plot.current?.setData(data.current), [times, lines]);

  return (
    <figure class="chart">
      <div ref={place} role="img" aria-label={`${title}. ${summary}`} class="chart-plot" />
      <figcaption>
        <ul class="legend" aria-hidden="true">
          {lines.map((line, index) => (
            <li key={line.tenant}>
              <span class={`legend-mark line-${(index % COLOURS) + 1}`} />
              {line.tenant} <span class="number dim">{count(line.values.at(-1))}</span>
            </li>
          ))}
        </ul>
        <details>
          <summary>Show as text</summary>
          <p>{summary}</p>
          <ul>
            {lines.map((line) => <li key={line.tenant}>{line.tenant}: {count(line.values.at(-1))}</li>)}
          </ul>
        </details>
      </figcaption>
    </figure>
  );
}

function options(names: string[], width: number): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: property("--text-dim"),
    grid: { stroke: property("--border"), width: 1 },
    ticks: { stroke: property("--border"), width: 1 },
    font: "12px system-ui, sans-serif",
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] } },
    axes: [
      { ...axis, values: (_, splits) => splits.map((at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false })), space: 90 },
      { ...axis, values: (_, splits) => splits.map((value) => count(value)), size: 56 },
    ],
    series: [{}, ...names.map((label, index) => ({ label, stroke: colour(index), width: 2, points: { show: false } }))],
  };
}
