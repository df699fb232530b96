export { board as leaderboard } from "./board";
