// Answers about the caller and the server, and the frame of lists.

export type Role = "producer" | "worker" | "operator" | "admin";

export interface CurrentKey {
  required: boolean;
  id: string | null;
  name: string | null;
  role: Role;
  tenant: string | null;
}

export interface Pagination {
  has_more: boolean;
  limit: number;
  next_cursor?: string;
  offset?: number;
  page?: number;
  per_page?: number;
  total?: number;
  truncated?: boolean;
}

export interface Page<Item> {
  items: Item[];
  pagination: Pagination;
}

export interface Stats {
  jobs: Record<string, number>;
  queues: number;
  workers: number;
  throughput: { processed_per_minute: number; failed_per_minute: number };
  uptime_seconds: number;
}

export interface EventRecord {
  id: string;
  type: string;
  time: string;
  subject?: string;
  data: Record<string, unknown>;
}
