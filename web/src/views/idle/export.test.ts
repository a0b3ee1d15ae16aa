import { expect, it } from "vitest";
import type { IdlePod } from "../../api/types";
import { fileName, idleCsv } from "./export";

it("writes a value for each column", () => {
  const pod: IdlePod = {
    age_seconds: 1,
    cluster: "c",
    device_hours: 1.25,
    devices: 2,
    devices_idle: 0.75,
    idle_seconds: 2250.4,
    memory_used_bytes: null,
    models: ["A", "B"],
    namespace: "n",
    node: "m",
    owner_kind: "Job",
    owner_name: "train",
    pod: "p",
    simulated: true,
    state: "fresh",
  };
  const [header, line] = idleCsv([pod]).split("\r\n");
  expect(header?.split(",")).toHaveLength(14);
  expect(line).toBe("c,n,p,Job,train,m,2,0.75,A; B,2250,1.25,,fresh,true");
});

it("contains the time in the file name", () => {
  expect(fileName(new Date(2026, 10, 6, 9, 5))).toBe("idle-2026-11-06T0905.csv");
});
