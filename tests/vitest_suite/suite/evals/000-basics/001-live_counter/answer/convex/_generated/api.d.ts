/* eslint-disable */
import type { AnyApi, AnyComponents } from "convex/server";

export declare const api: AnyApi;
export declare const internal: AnyApi;
export declare const components: AnyComponents;
