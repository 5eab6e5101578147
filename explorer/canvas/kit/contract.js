/* What Python and the picture both name. Written by `python -m explorer.picture.contract`; do not edit. */

export const SLOT_WORDS = ["receive", "compute", "send"];
export const SLOT_RECEIVE = 0;
export const SLOT_COMPUTE = 1;
export const SLOT_SEND = 2;
export const PASS_LETTERS = ["F", "B", "I", "W"];
export const PASS_NAMES = ["forward", "backward", "input gradient", "weight gradient"];
export const PASS_FORWARD = 0;
export const PASS_WEIGHT_GRADIENT = 3;
export const LEVEL_LAYERS = "layers";
export const LEVEL_BLOCKS = "blocks";
export const LEVEL_STAGES = "stages";
export const LEVEL_DEVICES = "devices";
export const EDIT_MOVE = "move";
export const EDIT_PIN = "pin";
export const EDIT_UNPIN = "unpin";
export const EDIT_TOGETHER = "together";
export const EDIT_UNDO = "undo";
export const EDIT_REDO = "redo";
export const EDIT_REPAIR = "repair";
export const EDIT_RESOLVE = "resolve";
export const EDIT_RESET = "reset";
