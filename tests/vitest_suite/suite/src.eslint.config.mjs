import eslint from "@eslint/js";
import tseslint from "typescript-eslint";

export default [eslint.configs.recommended, { files: ["**/*.{ts,tsx}"], languageOptions: { parser: tseslint.parser }, rules: { "no-debugger": "error" } }];
