mod expand;
mod resolve;
mod retarget;
mod scan;
