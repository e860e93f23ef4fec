// The page of each section.

import type { ComponentChild } from "preact";
import { Crons } from "./crons";
import { DeadLetters } from "./dead_letters";
import { Events } from "./events";
import { Job } from "./job";
import { Jobs } from "./jobs";
import { Limits } from "./limits";
import { Overview } from "./overview";
import { Queue } from "./queue";
import { Queues } from "./queues";
import { Rule } from "./rule";
import { Rules } from "./rules";
import { Shadows } from "./shadow";
import { Tenant } from "./tenant";
import { Tenants } from "./tenants";
import { Workers } from "./workers";
import { Workflow } from "./workflow";
import { Workflows } from "./workflows";

type Query = Record<string, string>;

export function pageOf(section: string, rest: string[], query: Query): ComponentChild {
  const [item] = rest;
  switch (section) {
    case "overview": return <Overview query={query} />;
    case "rules": return item ? <Rule name={item} /> : <Rules />;
    case "tenants": return item ? <Tenant id={item} /> : <Tenants query={query} />;
    case "shadow": return <Shadows query={query} />;
    case "jobs": return item ? <Job id={item} /> : <Jobs query={query} />;
    case "queues": return item ? <Queue name={item} /> : <Queues query={query} />;
    case "workflows": return item ? <Workflow id={item} /> : <Workflows query={query} />;
    case "crons": return <Crons query={query} />;
    case "dead-letters": return <DeadLetters query={query} />;
    case "workers": return <Workers query={query} />;
    case "limits": return <Limits query={query} />;
    default: return <Events query={query} />;
  }
}
