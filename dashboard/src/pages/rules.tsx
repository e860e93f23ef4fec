// All plan rules.

import { get } from "../api/client";
import { usePoll } from "../api/poll";
import type { Page, Rule } from "../api/types";
import { Head, Loaded } from "../components/page";
import { RuleTable } from "./overview";

const MOST = 200;

export function Rules() {
  const rules = usePoll("rules", (signal) => get<Page<Rule>>("/admin/planner", { limit: MOST }, signal));
  return (
    <>
      <Head title="Rules" note="A plan rule names job types. Their jobs wait in a queue per tenant and are promoted in fair order." />
      <Loaded from={rules}>{({ items }) => <RuleTable rules={items} />}</Loaded>
    </>
  );
}
