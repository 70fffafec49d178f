// SPDX-License-Identifier: MIT
//
// look.mjs CHROMIUM PAGE...: each page in Chromium, light and dark, on narrow and wide windows. Prints a line for
// each rule of axe-core that is broken, and for each window that the page is wider than.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";

// Packages lie in the working directory, not beside this file.
const require = createRequire(path.join(process.cwd(), "package.json"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [chromium, ...pages] = process.argv.slice(2);
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox"] });
for (const name of pages) {
  for (const value of ["light", "dark"]) {
    for (const width of [400, 1000, 1600]) {
      const page = await browser.newPage();
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
      await page.goto("file://" + path.resolve(name));
      const where = `${path.basename(name)}, ${value}, ${width} px`;
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (wide > 0) console.log(`${where}: ${wide} px too wide`);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => axe.run());
      for (const { id, nodes } of violations) {
        console.log(`${where}: ${id}: ${nodes[0].html.slice(0, 100)}: ${nodes[0].failureSummary.replaceAll("\n", " ")}`);
      }
      await page.close();
    }
  }
}
await browser.close();
