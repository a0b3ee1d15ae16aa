import { defineConfig } from "vitest/config";

// `npm run dev` asks a fleet for its data: FLEET=http://localhost:8080 npm run dev
const fleet = process.env.FLEET ?? "http://127.0.0.1:8080";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/accelscope/fleet/page/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the page's policy allows no inline anything
    modulePreload: { polyfill: false },
    sourcemap: false,
    license: { fileName: "licenses.txt" }, // what is bundled wants its own beside every copy
  },
  server: { proxy: { "/api": fleet, "/docs": fleet, "/openapi.json": fleet } },
  test: { include: ["src/**/*.test.ts", "src/**/*.test.tsx"], environment: "node", css: { include: /tokens\.css/ } },
});
