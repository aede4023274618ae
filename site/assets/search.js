// Makes what people type and what rows say alike: L2/76, 2_76 and "level 2 problem 76" are 2/76, gemm relu finds Gemm_Add_ReLU.
export const plainly = (text) => text.toLowerCase()
  .replace(/\blevel[ _]?(\d)[ _]?problem[ _]?(\d+)/g, "$1/$2")
  .replace(/\bl?([1-4])[/_-](\d{1,3})\b/g, "$1/$2")
  .replace(/[_,;:()]+/g, " ")
  .replace(/\s+/g, " ")
  .trim();
