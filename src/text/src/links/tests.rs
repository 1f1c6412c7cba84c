mod expand;
mod fields;
mod resolve;
mod retarget;
mod scan;
