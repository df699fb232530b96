import tseslint from "typescript-eslint";

export default tseslint.config({
  files: ["**/*.ts"],
  ignores: ["**/_generated/**"],
  extends: [tseslint.configs.recommendedTypeChecked],
  languageOptions: { parserOptions: { project: "./tsconfig.json" } },
  rules: { "@typescript-eslint/no-unused-vars": "off", "@typescript-eslint/require-await": "off", "@typescript-eslint/no-unsafe-assignment": "off" },
});
