import { Presence } from "@convex-dev/presence";

import { components } from "./_generated/api";

export const presence = new Presence(components.presence);
