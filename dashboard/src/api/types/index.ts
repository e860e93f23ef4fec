// The parts of the API's answers that the dashboard reads. docs/openapi.md describes the whole of them.

export type * from "./caller";
export type * from "./planner";
export type * from "./tenants";
export type * from "./jobs";
export type * from "./dispatch";
